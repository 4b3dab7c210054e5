"""Cron expressions of five fields: minute, hour, day of month, month, day of week.

A field is a list of `*`, numbers, names, ranges and steps, as in Vixie's cron: `*/15`, `9-17`, `9-17/2`, `5/15` (from
5 on), `mon-fri`; 0 and 7 are Sunday. Added to it: `L` and `LW` for a month's last day and its last from Monday to
Friday, `fri#2` for the second Friday, `friL` for the last. Letter case does not matter.

The day fields. A date must satisfy one of them if both are set; both if one of them starts with `*`. So `0 0 13 * 5`
is every 13th and every Friday, `0 0 */2 * 5` the Fridays among the odd days.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

MAX_EXPRESSION_CHARS: Final = 1000
CRON_FIX: Final = 'write minute, hour, day of month, month and day of week, for instance "30 9 * * 1-5"'

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_NUMBER = re.compile(r"[0-9]{1,9}")
_SUNDAY = 7


class _Field(NamedTuple):
    """`names` stand for the numbers from `names_from` on. `whole` is the plain range that people mean by all."""

    name: str
    least: int
    most: int
    names: tuple[str, ...] = ()
    names_from: int = 0

    @property
    def allowed(self) -> str:
        """What may stand in it."""
        names = f", {self.names[0]} to {self.names[-1]}" if self.names else ""
        sunday = " (0 and 7 are Sunday)" if self is _WEEKDAY else ""
        return f"allowed: {self.least} to {self.most}{names}{sunday}"


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31)
_MONTH = _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
_WEEKDAY = _Field("day of week", 0, 7, ("sun", "mon", "tue", "wed", "thu", "fri", "sat"), 0)
_FIELDS = (_MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY)


class CronFault(NamedTuple):
    """One thing wrong in an expression, and what to do."""

    problem: str
    fix: str


class CronError(ValueError):
    """An expression that can't be accepted: every fault in it, in the order of its fields."""

    def __init__(self, faults: list[CronFault]) -> None:
        super().__init__("; ".join(f"{fault.problem}, {fault.fix}" for fault in faults))
        self.faults = tuple(faults)


@dataclass(frozen=True, slots=True)
class CronFields:
    """An expression's meaning. Bits: `days` 1 to 31, `months` 1 to 12, `weekdays` 0 (Monday) to 6.

    `nth_weekdays`: (weekday, nth) pairs, nth 1 to 5, or -1 for the last. `both`: a date must satisfy both day fields.
    """

    minutes: int
    hours: int
    days: int
    last_day: bool
    last_workday: bool
    months: int
    weekdays: int
    nth_weekdays: tuple[tuple[int, int], ...]
    both: bool

    @property
    def minutes_of_day(self) -> int:
        """Bit m for minute of the day m, 0 to 1439."""
        return sum(self.minutes << 60 * hour for hour in range(24) if self.hours >> hour & 1)


@lru_cache(maxsize=65536)
def parse_cron(expression: str) -> CronFields:
    """What an expression means. Raises CronError with every fault in its form; one that no date satisfies has none."""
    texts = expression.split()
    if len(texts) != len(_FIELDS):
        raise CronError([_wrong_number(expression, len(texts))])
    faults: list[CronFault] = []
    parsed = [_Parsed(field, text, faults) for field, text in zip(_FIELDS, texts, strict=True)]
    if faults:
        raise CronError(faults)
    minute, hour, day, month, weekday = parsed
    return CronFields(
        minutes=minute.bits,
        hours=hour.bits,
        days=day.bits,
        last_day=day.last_day,
        last_workday=day.last_workday,
        months=month.bits,
        weekdays=sum(1 << (number - 1) % 7 for number in range(7) if (weekday.bits | weekday.bits >> 7) >> number & 1),
        nth_weekdays=tuple(sorted(weekday.nth_weekdays)),
        both=texts[2].startswith("*") or texts[4].startswith("*"),
    )


def _wrong_number(expression: str, count: int) -> CronFault:
    text = expression.strip().lower()
    if text in _MACROS:
        return CronFault("a nickname, not five fields", f'write "{_MACROS[text]}"')
    if text.startswith("@"):
        return CronFault("a nickname that stands for no time", CRON_FIX)
    if count == len(_FIELDS) + 1:
        return CronFault("has 6 fields, not 5: seconds, and years, have no place in it", CRON_FIX)
    return CronFault(f"has {count} field{'' if count == 1 else 's'}, not 5", CRON_FIX)


class _Parsed:
    """One field, read: its set of numbers, and what else it says. Every fault in it is noted."""

    def __init__(self, field: _Field, text: str, faults: list[CronFault]) -> None:
        self.bits = 0
        self.last_day = self.last_workday = False
        self.nth_weekdays: set[tuple[int, int]] = set()
        self._field = field
        self._faults = faults
        for item in text.split(","):
            if not item:
                self._refuse("an item of the list is empty", "take out the comma too many")
            elif not self._special(item):
                self._plain(item)

    def _refuse(self, problem: str, fix: str | None = None) -> None:
        self._faults.append(CronFault(f"{self._field.name}: {problem}", fix or self._field.allowed))

    def _special(self, item: str) -> bool:
        """Take an item that is more than numbers; false for one that is not."""
        word = item.lower()
        if word == "?":
            self._refuse("? is not known here", "write *")
        elif self._field is _DAY and word in ("l", "lw"):
            self.last_day |= word == "l"
            self.last_workday |= word == "lw"
        elif self._field is _DAY and re.fullmatch(r"[0-9]+w|l-[0-9]+", word):
            self._refuse(f"{item} is not known here", "write days, L for the last, LW for the last workday")
        elif self._field is _WEEKDAY and "#" in item:
            self._nth(*item.split("#", 1))
        elif self._field is _WEEKDAY and word != "l" and word.endswith("l"):
            if (number := self._number(item[:-1])) is not None:
                self.nth_weekdays.add(((number - 1) % 7, -1))
        elif self._field is _WEEKDAY and re.fullmatch(r"l[0-9]?", word):
            day = item[1:] or "6"
            self._refuse(f"{item} is not known here", f"write {day}L for the last of the month, {day} for each")
        else:
            return False
        return True

    def _nth(self, weekday: str, nth: str) -> None:
        number = self._number(weekday)
        if number is None:
            return
        if not re.fullmatch(r"[1-5]", nth):
            self._refuse(f"#{nth} is not one of a month's weekdays", f"write {weekday}#1 to {weekday}#5, or {weekday}L")
        else:
            self.nth_weekdays.add(((number - 1) % 7, int(nth)))

    def _plain(self, item: str) -> None:
        """`*`, a number, a range, and any of them with a step."""
        span, slash, step_text = item.partition("/")
        bounds = self._bounds(span, open_ended=bool(slash))
        step = self._step(step_text) if slash else 1
        if bounds is not None and step is not None:
            self.bits |= sum(1 << number for number in range(bounds[0], bounds[1] + 1, step))

    def _bounds(self, span: str, *, open_ended: bool) -> tuple[int, int] | None:
        field = self._field
        if span == "*":
            return field.least, field.most
        first_text, dash, last_text = span.partition("-")
        first = self._number(first_text)
        if not dash:
            return None if first is None else (first, field.most if open_ended else first)
        last = self._number(last_text)
        if first is None or last is None:
            return None
        if field is _WEEKDAY and last_text.lower() == "sun" and first > 0:
            last = _SUNDAY
        if first > last:
            top = 6 if field is _WEEKDAY else field.most
            to_sunday = field is _WEEKDAY and last == 0
            self._refuse(
                f"{span} runs backwards", f"write {first}-{'7' if to_sunday else f'{top},{field.least}-{last}'}"
            )
            return None
        return first, last

    def _number(self, text: str) -> int | None:
        field = self._field
        if text.lower() in field.names:
            return field.names.index(text.lower()) + field.names_from
        if not _NUMBER.fullmatch(text):
            near = next((name for name in field.names if text.lower().startswith(name)), None)
            what = (
                f'"{text}" is not a number' + (" or a name" if field.names else "") if text else "a number is missing"
            )
            self._refuse(what, f"write {near}" if near else None)
            return None
        if not field.least <= int(text) <= field.most:
            self._refuse(f"{int(text)} is out of range")
            return None
        return int(text)

    def _step(self, text: str) -> int | None:
        most = self._field.most - self._field.least
        if _NUMBER.fullmatch(text) and 1 <= int(text) <= most:
            return int(text)
        fix = f"write a step of 1 to {most}"
        if _NUMBER.fullmatch(text) and int(text) > most and self._field in (_MINUTE, _HOUR):
            fix += f", or use {{kind: every, {self._field.name}s: {int(text)}}}"
        self._refuse(f'"{text}" is not a step' if text else "the step is missing", fix)
        return None
