"""What a window came to: counts that add up over regions, partitions and windows, and the first few faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields

EXAMPLES_KEPT = 10


@dataclass(slots=True)
class Tally:
    """Counts of one slice of the work. `promised` leaves out what a delete or pause cancelled before it was sent.

    `missing`: promised, no effect, and not in review. `duplicated`: effects beyond a key's first. `phantom`: keys with
    an effect that nobody promised. `wrong`: effects that say another label, instant, zone or destination than promised.
    `retried`: keys that took more than one attempt. `repeated`: labels that an edit brought again under a fired key.
    """

    promised: int = 0
    delivered: int = 0
    duplicated: int = 0
    missing: int = 0
    cancelled: int = 0
    in_review: int = 0
    phantom: int = 0
    wrong: int = 0
    repeated: int = 0
    retried: int = 0

    def add(self, other: Tally) -> None:
        """Add another slice's counts to this one's."""
        for name in (entry.name for entry in fields(self)):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class WindowReport:
    """One window, verified. `partitions` is keyed `REGION/NUMBER`; `lanes` holds the provider's own event counts.

    `disagreements` counts where the ledger and the provider's log differ, by kind; `examples` keeps the first few
    faults of each kind in words.
    """

    window: str
    total: Tally = field(default_factory=Tally)
    regions: dict[str, Tally] = field(default_factory=dict)
    partitions: dict[str, Tally] = field(default_factory=dict)
    not_fired: dict[str, dict[str, int]] = field(default_factory=dict)  # region -> reason -> labels
    lanes: dict[str, dict[str, int]] = field(default_factory=dict)
    ledger_states: dict[str, int] = field(default_factory=dict)
    disagreements: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)

    def count(self, region: str, partition: int, what: str) -> None:
        """Count one in the total, its region and its partition."""
        for tally in (
            self.total,
            self.regions.setdefault(region, Tally()),
            self.partitions.setdefault(f"{region}/{partition}", Tally()),
        ):
            setattr(tally, what, getattr(tally, what) + 1)

    def note(self, kind: str, words: str) -> None:
        """Keep a fault in words, up to a few of a kind."""
        kept = self.examples.setdefault(kind, [])
        if len(kept) < EXAMPLES_KEPT:
            kept.append(words)

    def disagree(self, kind: str, words: str) -> None:
        """Count and keep one difference between the ledger and the provider's log."""
        self.disagreements[kind] = self.disagreements.get(kind, 0) + 1
        self.note(kind, words)

    @property
    def reasons(self) -> dict[str, int]:
        """Labels that did not fire, by reason, over all regions."""
        return add_counts(self.not_fired.values())

    @property
    def lane_events(self) -> dict[str, int]:
        """The provider's events over all lanes."""
        return add_counts(self.lanes.values())

    @property
    def faults(self) -> list[str]:
        """Why this window does not pass, one line each; empty if it does."""
        tally = self.total
        found = [f"{name}={count}" for name in _MUST_BE_ZERO if (count := getattr(tally, name))]
        if tally.delivered != tally.promised:
            found.append(f"delivered {tally.delivered} of {tally.promised} promised")
        found += [f"{kind.replace('_', ' ')}: {count}" for kind, count in sorted(self.disagreements.items())]
        return [f"{self.window}: {words}" for words in found]

    def to_json(self) -> dict[str, object]:
        """The same as plain values, for `--json`."""
        return asdict(self) | {"reasons": self.reasons, "faults": self.faults, "passed": not self.faults}


_MUST_BE_ZERO = ("duplicated", "missing", "in_review", "phantom", "wrong")


def combine(reports: Iterable[WindowReport]) -> WindowReport:
    """All windows as one, named `all`. Its `faults` is made of counts only; each window's own says where."""
    whole = WindowReport("all")
    for report in reports:
        whole.total.add(report.total)
        for mine, theirs in ((whole.regions, report.regions), (whole.partitions, report.partitions)):
            for name, tally in theirs.items():
                mine.setdefault(name, Tally()).add(tally)
        for table, other in ((whole.not_fired, report.not_fired), (whole.lanes, report.lanes)):
            for name, counts in other.items():
                table[name] = add_counts([table.get(name, {}), counts])
        whole.ledger_states = add_counts([whole.ledger_states, report.ledger_states])
        whole.disagreements = add_counts([whole.disagreements, report.disagreements])
        for kind, words in report.examples.items():
            for line in words:
                whole.note(kind, f"{report.window}: {line}")
    return whole


def add_counts(tables: Iterable[dict[str, int]]) -> dict[str, int]:
    """Counts added up by name, sorted by name."""
    total: Counter[str] = Counter()
    for table in tables:
        total.update(table)
    return dict(sorted(total.items()))


def last_line(whole: WindowReport) -> str:
    """The demo's last line, to the letter."""
    tally = whole.total
    return (
        f"demo: promised={tally.promised} delivered={tally.delivered} "
        f"duplicated={tally.duplicated} missing={tally.missing}"
    )
