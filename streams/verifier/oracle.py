"""What was promised, from first principles: each minute, each schedule, under the revision in force at that minute.

The rules, as `docs/design.md` gives them:

- a label the wall clock shows once fires there;
- one it shows twice fires at the first copy, the second, or both (then the second's key ends in `#2`); each copy is
  decided at its own minute, and a revision that came into force after the first copy treats the second as the only one;
- one it never shows is skipped, fires just past the jump, or fires where the clock would have shown it;
- one promise per key. Where an edit brings a label again that has fired already (a move to a zone further west), the
  key is the same, so it is the same promise: counted in `repeated`, never as a second one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from streams.verifier.documents import History, Revision
from streams.verifier.minutes import label_text, weekday_of
from streams.verifier.zones import How, Landing, ZoneLine

Verdict = int | str | None
_AT_SECOND_COPY: dict[str, Verdict] = {"first": "overlap_suppressed", "second": 0, "both": 1}
_AT_JUMP: dict[str, Verdict] = {"skip": "gap_skipped", "next_valid": 0, "shift": None}


@dataclass(frozen=True, slots=True)
class Promised:
    """One promise: its key, the label, the tick it fires at, and the revision that says where it goes."""

    key: str
    label: int
    tick: int
    copy: int
    revision: Revision


@dataclass(frozen=True, slots=True)
class NotFired:
    """A label that did not fire, and why, in the words of the design. `tick` is the minute it was decided at."""

    schedule_id: str
    label: int
    tick: int
    reason: str
    region: str


@dataclass(slots=True)
class Promises:
    """All promises of a window by key, the labels that did not fire, and fires whose key was promised already."""

    by_key: dict[str, Promised] = field(default_factory=dict)
    not_fired: list[NotFired] = field(default_factory=list)
    repeated: list[Promised] = field(default_factory=list)

    def reasons(self) -> dict[str, int]:
        """How many labels did not fire, by reason, sorted by name."""
        return dict(sorted(Counter(entry.reason for entry in self.not_fired).items()))


def promises(histories: Iterable[History], start: int, end: int) -> Promises:
    """What the schedules promise in `start <= tick < end`. Of several fires under one key the earliest counts."""
    lines: dict[str, ZoneLine] = {}
    result = Promises()
    for history in histories:
        fires: list[Promised] = []
        for revision in history.revisions:
            line = lines.get(revision.zone)
            if line is None:
                line = lines[revision.zone] = ZoneLine(revision.zone, start, end)
            _walk(revision, line, fires, result.not_fired)
        for fire in sorted(fires, key=lambda f: (f.tick, f.label)):
            if result.by_key.setdefault(fire.key, fire) is not fire:
                result.repeated.append(fire)
    return result


def key_of(schedule_id: str, label: int, copy: int = 0) -> str:
    """sha256 of `id|label`, with `#2` inside the hash for the second fire under `both`."""
    return sha256(f"{schedule_id}|{label_text(label)}{'#2' if copy else ''}".encode()).hexdigest()


def _walk(revision: Revision, line: ZoneLine, fires: list[Promised], not_fired: list[NotFired]) -> None:
    """Decide every landing of the revision's labels in the minutes it is in force."""
    for minute in revision.at:
        for landing in line.at(minute):
            day = landing.label // 1440
            in_force = revision.since <= landing.tick < revision.until
            if not in_force or (revision.weekdays is not None and weekday_of(day) not in revision.weekdays):
                continue
            verdict = _decide(revision, landing)
            excluded = _excluded(revision, day)
            if excluded and verdict == "overlap_suppressed":
                continue  # the copy that would have fired accounts for the label
            if excluded and verdict is not None:
                verdict = excluded
            elif isinstance(verdict, int) and revision.paused:
                verdict = "paused"
            if isinstance(verdict, int):
                key = key_of(revision.schedule_id, landing.label, verdict)
                fires.append(Promised(key, landing.label, landing.tick, verdict, revision))
            elif verdict:
                not_fired.append(NotFired(revision.schedule_id, landing.label, landing.tick, verdict, revision.region))


def _decide(revision: Revision, landing: Landing) -> Verdict:
    """The copy number it fires as (0, or 1 for the second under `both`), a reason not to, or none: not decided here."""
    verdict: Verdict = 0
    if landing.how is How.FIRST and revision.overlap == "second":
        verdict = "overlap_suppressed"
    elif landing.how is How.SECOND and landing.first_tick >= revision.since:
        verdict = _AT_SECOND_COPY[revision.overlap]
    elif landing.how is How.AT_JUMP:
        verdict = _AT_JUMP[revision.gap]
    elif landing.how is How.SHIFTED and revision.gap != "shift":
        verdict = None
    return verdict


def _excluded(revision: Revision, day: int) -> str | None:
    """Why no label of that local date fires, whatever the clock does; or none."""
    if revision.starts_on is not None and day < revision.starts_on:
        return "before_effective"
    if revision.ends_on is not None and day > revision.ends_on:
        return "after_end"
    if day in revision.except_days:
        return "excepted"
    return None
