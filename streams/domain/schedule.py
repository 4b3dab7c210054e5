"""A schedule: the rule, resolved. What a revision of a plan holds and the joiner evaluates.

Every default of contracts.md is filled in before one of these exists, so nothing downstream knows a default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Gap(StrEnum):
    """What a label that never exists does (a clock jumped over it)."""

    SKIP = "skip"
    NEXT_VALID = "next_valid"
    SHIFT = "shift"


class Overlap(StrEnum):
    """Which copy of a label that exists twice fires."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class Promise(StrEnum):
    """What one occurrence is promised for: a wall-clock label, or a local business date."""

    LABEL = "label"
    BUSINESS_DATE = "business_date"


class Mode(StrEnum):
    """`shadow` is the whole path with the side effect suppressed."""

    LIVE = "live"
    SHADOW = "shadow"


class OnDelete(StrEnum):
    """What becomes of unsent occurrences when their schedule is deleted or paused."""

    CANCEL = "cancel"
    DELIVER = "deliver"


class LatePolicy(StrEnum):
    """Which of several late occurrences are still sent."""

    ALL = "all"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Policy:
    """The resolved pair of policies; `code` (0 to 8) is its bit in a segment's mask."""

    gap: Gap
    overlap: Overlap

    @property
    def code(self) -> int:
        """gap * 3 + overlap, both in the order of their definition."""
        return _GAPS.index(self.gap) * 3 + _OVERLAPS.index(self.overlap)


_GAPS = tuple(Gap)
_OVERLAPS = tuple(Overlap)
POLICIES = tuple(Policy(gap, overlap) for gap in Gap for overlap in Overlap)


class MissingDay(StrEnum):
    """What a day does that a month lacks: nothing, the month's last day instead, or the 1st of the next month."""

    SKIP = "skip"
    CLAMP = "clamp"
    NEXT = "next"


@dataclass(frozen=True, slots=True)
class Daily:
    """Every date, at each of `at`: minutes of the day, 0 to 1439, ascending. So is `at` of every rule below."""

    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Weekly:
    """On each of `weekdays` (0 is Monday, ascending).

    `anchor` is a day number, none only with `every_weeks` 1: the rule begins on it, in its week (Monday to Sunday) and
    in every `every_weeks`-th week after that.
    """

    weekdays: tuple[int, ...]
    at: tuple[int, ...]
    every_weeks: int = 1
    anchor: int | None = None


@dataclass(frozen=True, slots=True)
class MonthlyDays:
    """On days of every month: 1 to 31, and -1 (the last) to -28, ascending with the negative ones last."""

    days: tuple[int, ...]
    missing_day: MissingDay
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MonthlyWeekday:
    """On the `nth` of a weekday (0 is Monday) of every month that has it: 1 to 5, or -1 (the last) to -5."""

    nth: int
    weekday: int
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MonthlyWorkday:
    """On the `nth` date from Monday to Friday of every month: 1 to 20, or -1 (the last) to -20."""

    nth: int
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Yearly:
    """On one day of one month: a day as in `MonthlyDays`, which the month may lack in some years or in all."""

    month: int
    day: int
    missing_day: MissingDay
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Once:
    """On one date, a day number."""

    day: int
    at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron expression of five fields, one space between them, that `cron.parse_cron` accepts."""

    expression: str


@dataclass(frozen=True, slots=True)
class Every:
    """Elapsed time: every `minutes` of real time, at the tick `anchor` and from it on. It has no labels: its dates, for
    bounds and exceptions as for the ledger, are UTC dates.
    """

    minutes: int
    anchor: int


CalendarRule = Daily | Weekly | MonthlyDays | MonthlyWeekday | MonthlyWorkday | Yearly | Once | Cron
Rule = CalendarRule | Every


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where an occurrence goes: a provider named in the settings, a destination, a payload as canonical JSON text."""

    provider: str
    to: str
    payload: str


@dataclass(frozen=True, slots=True)
class Schedule:
    """One schedule, whole and resolved. Dates are day numbers, inclusive; `effective_from` is a tick or none.

    `count`, only where there is a `starts_on`, is how many labels the rule has from that date on.
    """

    id: str
    tenant: str
    account: str | None
    region: str
    zone: str
    rule: Rule
    policy: Policy
    promise: Promise
    starts_on: int | None
    ends_on: int | None
    except_dates: tuple[int, ...]
    late_policy: LatePolicy
    late_grace_s: int | None
    spread_s: int
    mode: Mode
    paused: bool
    on_delete: OnDelete
    effective_from: int | None
    deliver: Delivery
    count: int | None = None
