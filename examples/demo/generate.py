"""Writes the demo's files, the same bytes every time: `python examples/demo/generate.py [FOLDER]`.

`schedules.yaml` has 2,000 schedules, 50 in each of 40 zones. `edits-WINDOW.yaml` has the 50 documents that are applied
while a window's ticker stands still, and `demo.yaml` says when that is, which ids are deleted then, and what the
providers do. Half of the times lie where clocks jump; the edits are chosen to hurt: moves to a zone further
west in which a label that has fired comes again, new policies before a jump or between two copies of a label, pauses.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cache
from importlib import resources
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo  # noqa: TID251 - read from the tzdata package only, see zone_info

SEED = 20261025
SCHEDULES_PER_ZONE = 50
Document = dict[str, Any]

# The region says which provider sends; it need not be where the zone is.
ZONES = {
    "eu": (
        "Africa/Cairo", "Africa/Casablanca", "Africa/Johannesburg", "Africa/Lagos", "Antarctica/Troll", "Asia/Beirut",
        "Asia/Gaza", "Asia/Jerusalem", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Tehran", "Atlantic/Azores",
        "Europe/Athens", "Europe/Berlin", "Europe/Chisinau", "Europe/Dublin", "Europe/Helsinki", "Europe/Istanbul",
        "Europe/Lisbon", "Europe/London",
    ),
    "us": (
        "America/Anchorage", "America/Asuncion", "America/Chicago", "America/Denver", "America/Halifax",
        "America/Havana", "America/Los_Angeles", "America/Mexico_City", "America/New_York", "America/Nuuk",
        "America/Santiago", "America/Sao_Paulo", "America/St_Johns", "Australia/Lord_Howe", "Australia/Sydney",
        "Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Honolulu", "Pacific/Kiritimati",
    ),
}  # fmt: skip

# (what it is for, its template, and a line of payload text)
KINDS = (
    ("medication", "take-medication", "Zeit für die Abendtablette"),
    ("payday", "payday-notice", "Your pay is on its way"),
    ("standup", "standup-soon", "Stand-up in five minutes"),
    ("backup", "backup-check", "Is last night's backup complete?"),
    ("rent", "rent-due", "O aluguel vence hoje"),
    ("shift", "shift-handover", "Relève de l'équipe de nuit"),
    ("digest", "daily-digest", "What happened since yesterday"),
    ("class", "class-starts", "La clase empieza pronto"),
)
TENANTS = ("acme", "blue-harbor", "cedar-clinic", "delta-school", "elm-street", "fjord-bank", "granite", "hilltop")
PEOPLE = ("ana", "bo", "chidi", "dina", "emil", "fatima", "goran", "hana", "ivo", "june", "kofi", "lena", "mira", "noa")

# Where clocks jump somewhere: 02:30 in New York and Berlin, 00:00 in Beirut and Havana, 02:15 in Lord Howe, and so on.
HARD_TIMES = (
    "00:00", "00:15", "00:30", "00:59", "01:00", "01:15", "01:30", "01:45", "02:00", "02:15", "02:30", "02:45",
    "02:59", "03:00", "03:30", "23:00", "23:30",
)  # fmt: skip
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
GAPS = ("skip", "next_valid", "shift")
OVERLAPS = ("first", "second", "both")


@dataclass(frozen=True)
class Window:
    """Four days, and the minute after which the ticker stands still."""

    name: str
    start: str
    end: str
    halt_at: str
    why: str


WINDOWS = (
    Window("europe-autumn-2026", "2026-10-23T12:00Z", "2026-10-27T12:00Z", "2026-10-25T00:40Z",
           "between the two copies of 02:30 in Berlin"),
    Window("america-autumn-2026", "2026-10-29T18:00Z", "2026-11-02T18:00Z", "2026-11-01T05:35Z",
           "between the two copies of 01:30 in New York"),
    Window("america-spring-2027", "2027-03-12T12:00Z", "2027-03-16T12:00Z", "2027-03-14T07:10Z",
           "ten minutes past New York's jump: before 02:30 would have been, had there been no jump"),
    Window("europe-spring-2027", "2027-03-25T18:00Z", "2027-03-29T18:00Z", "2027-03-27T15:20Z",
           "between the jumps of Jerusalem and Gaza and those of Beirut and Europe"),
)  # fmt: skip


def schedules(random: Random) -> list[Document]:
    """All schedules, 50 a zone, in the order of their zones."""
    found: list[Document] = []
    for region, zones in ZONES.items():
        for zone in zones:
            found += [schedule(random, region, zone, len(found) + n) for n in range(SCHEDULES_PER_ZONE)]
    return found


def schedule(random: Random, region: str, zone: str, number: int) -> Document:
    """One schedule. What a document can leave out, some leave out."""
    subject, template, text = KINDS[number % len(KINDS)]
    tenant = TENANTS[random.randrange(len(TENANTS))]
    person = PEOPLE[random.randrange(len(PEOPLE))]
    city = zone.rsplit("/", 1)[1].lower().replace("_", "-")
    document: Document = {"id": f"{tenant}.{subject}.{city}.{number:04d}", "tenant": tenant}
    if random.random() < 0.8:
        document["account"] = f"A-{random.randrange(1, 400):03d}"
    document |= {"region": region, "zone": zone, "rule": rule(random, zone, number)}
    if random.random() < 0.9:
        document |= {"gap": GAPS[number % 9 // 3], "overlap": OVERLAPS[number % 3]}
    document |= limits(random)
    if number % 125 == 60:
        document["paused"] = True
    if random.random() < 0.15:
        document["on_delete"] = "deliver"
    document["deliver"] = {
        "provider": f"{region}-mail",
        "to": f"{person}@{tenant}.example",
        "payload": {"template": template, "text": text, "number": number},
    }
    return document


def rule(random: Random, zone: str, number: int) -> Document:
    """Daily or weekly; mostly one time of day. Two of the 2,000 run every hour."""
    if number in (650, 1410):
        return {"kind": "daily", "at": [f"{hour:02d}:30" for hour in range(24)]}
    draw = random.random()
    count = 1 if draw < 0.80 else 2 if draw < 0.95 else 3
    at = sorted({time_of_day(random, zone) for _ in range(count)})
    if random.random() < 0.69:
        return {"kind": "daily", "at": at}
    days = random.sample(range(7), random.choice((1, 1, 2, 3, 5)))
    return {"kind": "weekly", "weekdays": [WEEKDAYS[day] for day in sorted(days)], "at": at}


def time_of_day(random: Random, zone: str) -> str:
    """A quarter each: a minute the zone's own clock jumps over or shows twice (if it does), one at which clocks jump
    somewhere; else one of the day.
    """
    draw = random.random()
    jumps = times_of_jumps(zone)
    if draw < 0.25 and jumps:
        return random.choice(jumps)
    if draw < 0.5:
        return random.choice(HARD_TIMES)
    minute = random.randrange(5 * 60, 22 * 60)
    return clock(minute - minute % 5 if random.random() < 0.8 else minute)


@cache
def times_of_jumps(zone: str, window: Window | None = None) -> list[str]:
    """Every quarter of an hour that the zone's clock jumps over or shows twice in the window, or in any of them."""
    if window is None:
        return sorted({text for each in WINDOWS for text in times_of_jumps(zone, each)})
    tz, found = zone_info(zone), set[str]()
    half_hours = (datetime.fromisoformat(window.start) + timedelta(minutes=30 * n) for n in range(4 * 48))
    local = [moment.astimezone(tz).replace(tzinfo=None) for moment in half_hours]
    for before, after in pairwise(local):
        jump = after - before - timedelta(minutes=30)
        start = min(after, after - jump)
        found |= {f"{start + timedelta(minutes=quarter):%H:%M}" for quarter in range(0, abs(minutes(jump)), 15)}
    return sorted(found)


def minutes(span: timedelta) -> int:
    return span // timedelta(minutes=1)


def limits(random: Random) -> Document:
    """Bounds and exceptions for some, on dates inside the windows and elsewhere."""
    draw, found = random.random(), Document()
    if draw < 0.06:
        found["starts_on"] = random.choice((date(2026, 10, 25), date(2026, 11, 1), date(2027, 1, 1)))
    if 0.04 < draw < 0.10:
        found["ends_on"] = random.choice((date(2027, 3, 14), date(2027, 3, 27), date(2027, 12, 31)))
    if 0.10 < draw < 0.18:
        days = (date(2026, 10, 25), date(2026, 11, 1), date(2026, 12, 24), date(2027, 3, 14), date(2027, 3, 28))
        found["except_dates"] = sorted(random.sample(days, 2))
    return found


class Changes:
    """The edits and deletes of one window. Each id is changed once at most."""

    def __init__(self, random: Random, documents: list[Document], window: Window) -> None:
        self.random = random
        self.window = window
        self.halt_at = datetime.fromisoformat(window.halt_at)
        self.shuffled = random.sample(documents, len(documents))
        self.used: set[str] = set()
        self.edits: list[Document] = []
        active = self.active
        for count, wanted, edit in (
            (10, lambda d: active(d) and bool(self.zones_west(d)), self.move_west),
            (5, active, self.move_east),
            (12, active, self.move_times),
            (4, lambda d: active(d) and self.near_a_jump(d, 2), self.change_policy),
            (4, lambda d: active(d) and self.near_a_jump(d, 24), self.change_policy),
            (3, lambda d: active(d) and self.near_a_jump(d, 2), self.change_text),
            (2, lambda d: active(d) and self.near_a_jump(d, 24), self.change_text),
            (4, active, self.pause),
            (2, lambda d: d.get("paused", False), self.resume),
            (2, lambda d: active(d) and d["rule"]["kind"] == "daily", self.make_weekly),
            (2, active, self.add_exception),
        ):
            self.edits += [self.edited(document, edit) for document in self.take(count, wanted)]
        self.deletes = sorted(document["id"] for document in self.take(10, active))

    @staticmethod
    def active(document: Document) -> bool:
        """Not paused, and not one of those that run every hour."""
        return not document.get("paused", False) and len(document["rule"]["at"]) < 24

    def take(self, count: int, wanted: Callable[[Document], bool]) -> list[Document]:
        """The next so many unused documents that are wanted."""
        found: list[Document] = []
        for document in self.shuffled:
            if len(found) < count and document["id"] not in self.used and wanted(document):
                found.append(document)
                self.used.add(document["id"])
        if len(found) < count:
            raise SystemExit(f"only {len(found)} of {count} schedules for an edit: change the seed")
        return found

    @staticmethod
    def edited(document: Document, edit: Callable[[Document], None]) -> Document:
        """A changed copy."""
        changed = deepcopy(document)
        edit(changed)
        return changed

    def local(self, zone: str) -> datetime:
        """The wall clock of a zone at the halt."""
        return self.halt_at.astimezone(zone_info(zone)).replace(tzinfo=None)

    def zones_west(self, document: Document) -> list[str]:
        """Zones in which a label of today that fired within six hours of the halt is still to come."""
        here = self.local(document["zone"])
        passed = [label for label in labels_of_day(document, here) if here - timedelta(hours=6) < label <= here]
        return [zone for zone in all_zones() if any(self.local(zone) < label for label in passed)]

    def near_a_jump(self, document: Document, hours: int) -> bool:
        """Its zone's clock jumps within so many hours of the halt (within a day, where no zone's does), and jumps over
        or repeats one of the schedule's labels of that date.
        """
        if not any(self.jumps(zone, hours) for zone in all_zones()):
            hours = 24
        zone = document["zone"]
        if not self.jumps(zone, hours):
            return False
        jumping = self.local(zone) + timedelta(hours=hours - 1)
        return any(f"{label:%H:%M}" in times_of_jumps(zone, self.window) for label in labels_of_day(document, jumping))

    def jumps(self, zone: str, hours: int) -> bool:
        """Whether the zone's clock jumps from an hour before the halt to so many hours after it."""
        tz = zone_info(zone)
        before, after = (self.halt_at + timedelta(hours=h) for h in (-1, hours))
        return before.astimezone(tz).utcoffset() != after.astimezone(tz).utcoffset()

    def move_west(self, document: Document) -> None:
        document["zone"] = self.random.choice(self.zones_west(document))

    def move_east(self, document: Document) -> None:
        here = self.local(document["zone"])
        east = [zone for zone in all_zones() if self.local(zone) > here]
        document["zone"] = self.random.choice(east or ["Pacific/Kiritimati", "Pacific/Apia"])

    def move_times(self, document: Document) -> None:
        at = {
            clock((minute_of(text) + self.random.choice((-90, -45, 30, 75, 180))) % 1440) for text in self.at(document)
        }
        document["rule"]["at"] = sorted(at)

    def change_policy(self, document: Document) -> None:
        before = (document.get("gap", "skip"), document.get("overlap", "first"))
        pairs = [(gap, overlap) for gap in GAPS for overlap in OVERLAPS if gap != before[0] and overlap != before[1]]
        gap, overlap = self.random.choice(pairs)
        put_before(document, "deliver", {"gap": gap, "overlap": overlap})

    def change_text(self, document: Document) -> None:
        document["deliver"]["payload"]["text"] += " (changed)"
        document["deliver"]["to"] = "desk+" + document["deliver"]["to"]

    def pause(self, document: Document) -> None:
        put_before(document, "deliver", {"paused": True})

    def resume(self, document: Document) -> None:
        del document["paused"]

    def make_weekly(self, document: Document) -> None:
        document["rule"] = {"kind": "weekly", "weekdays": ["mon", "sun"], "at": self.at(document)}

    def add_exception(self, document: Document) -> None:
        tomorrow = self.local(document["zone"]).date() + timedelta(days=1)
        days = {*document.get("except_dates", ()), tomorrow}
        put_before(document, "deliver", {"except_dates": sorted(days)})

    @staticmethod
    def at(document: Document) -> list[str]:
        times: list[str] = document["rule"]["at"]
        return times


def labels_of_day(document: Document, here: datetime) -> Iterator[datetime]:
    """The rule's labels on the local date of `here`."""
    rule_ = document["rule"]
    if rule_["kind"] == "daily" or WEEKDAYS[here.weekday()] in rule_["weekdays"]:
        for text in rule_["at"]:
            yield datetime.combine(here.date(), datetime.min.time()) + timedelta(minutes=minute_of(text))


def put_before(document: Document, name: str, members: Document) -> None:
    """Set members, new ones standing before `name`."""
    last = document.pop(name)
    document |= members
    document[name] = last


def all_zones() -> list[str]:
    return [zone for zones in ZONES.values() for zone in zones]


@cache
def zone_info(zone: str) -> ZoneInfo:
    """A zone from the tzdata package, not from this machine."""
    source = resources.files("tzdata").joinpath("zoneinfo", *zone.split("/"))
    return ZoneInfo.from_file(io.BytesIO(source.read_bytes()), key=zone)


def minute_of(text: str) -> int:
    return int(text[:2]) * 60 + int(text[3:])


def clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


# Text that YAML reads as text without quotes.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/@+-]*( [A-Za-z0-9._/@+-]+)*")


def scalar(value: object) -> str:
    """A value as YAML: plain where it can be, in double quotes where it must."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value)


def block(document: Document, indent: str = "") -> Iterator[str]:
    """A mapping in block style; a list of scalars stands on one line."""
    for name, value in document.items():
        if isinstance(value, dict):
            yield f"{indent}{name}:"
            yield from block(value, indent + "  ")
        elif isinstance(value, list):
            yield f"{indent}{name}: [{', '.join(map(scalar, value))}]"
        else:
            yield f"{indent}{name}: {scalar(value)}"


def listing(comment: str, documents: Iterable[Document]) -> str:
    """A file of documents, one list."""
    lines = [f"# {comment}", "# Made by generate.py: change that and run it."]
    for document in documents:
        first, *rest = block(document)
        lines += ["", f"- {first}", *(f"  {line}" for line in rest)]
    return "\n".join(lines) + "\n"


DEMO = """\
# `make demo`: four windows of four days each, run one after the other on the scenario clock.
# Made by generate.py: change that and run it.
schedules: schedules.yaml
partitions: 8

regions:
  eu:
    provider: eu-mail
  us:
    provider: us-mail

# What the sandbox does. In a dip the lane admits less, from when so many per cent of a window's promises are delivered.
providers:
  eu-mail:
    rate_per_s: 300
    burst: 60
    latency_s: 0.02
    lost_answer_share: 0.003
    dips:
      - window: europe-autumn-2026
        at_percent: 25
        rate_per_s: 20
        for_s: 2
      - window: europe-spring-2027
        at_percent: 50
        rate_per_s: 20
        for_s: 2
  us-mail:
    rate_per_s: 300
    burst: 60
    latency_s: 0.02
    lost_answer_share: 0.003
    dips:
      - window: america-autumn-2026
        at_percent: 25
        rate_per_s: 20
        for_s: 2
      - window: america-spring-2027
        at_percent: 50
        rate_per_s: 20
        for_s: 2

# A delivery worker and a processor get SIGKILL when so many per cent of all ticks, over all windows, are joined.
kill:
  at_percent: 40

# In each window the ticker stands still after the minute `halt_at`; then the documents of `edits` are applied and the
# ids in `deletes` deleted; then it goes on. So a change counts for every minute after `halt_at`, and for none before.
windows:
"""


def demo(changes: dict[str, Changes]) -> str:
    """`demo.yaml`."""
    lines = []
    for window in WINDOWS:
        lines += [
            f"  - name: {window.name}",
            f"    from: {window.start}",
            f"    to: {window.end}",
            f"    # {window.why}",
            f"    halt_at: {window.halt_at}",
            f"    edits: edits-{window.name}.yaml",
            "    deletes:",
            *(f"      - {schedule_id}" for schedule_id in changes[window.name].deletes),
        ]
    return DEMO + "\n".join(lines) + "\n"


def files() -> dict[str, str]:
    """Every file's text by name."""
    random = Random(SEED)
    documents = schedules(random)
    changes = {window.name: Changes(random, documents, window) for window in WINDOWS}
    found = {
        "schedules.yaml": listing("2,000 schedules: 40 zones, two regions.", documents),
        "demo.yaml": demo(changes),
    }
    for window in WINDOWS:
        comment = f"Applied after {window.halt_at}: {window.why}."
        found[f"edits-{window.name}.yaml"] = listing(comment, changes[window.name].edits)
    return found


def main() -> None:
    """Write the files into the folder named, or beside this script."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
