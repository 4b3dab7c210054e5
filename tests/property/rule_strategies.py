"""Rules of every kind, drawn; cron expressions as people write them."""

from __future__ import annotations

from hypothesis import strategies as st

from streams.domain.schedule import (
    CalendarRule,
    Cron,
    Daily,
    Every,
    MissingDay,
    MonthlyDays,
    MonthlyWeekday,
    MonthlyWorkday,
    Once,
    Weekly,
    Yearly,
)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SUNDAY_FIRST = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

ats = st.sets(st.integers(0, 1439), min_size=1, max_size=5).map(lambda minutes: tuple(sorted(minutes)))
weekday_sets = st.sets(st.integers(0, 6), min_size=1).map(lambda days: tuple(sorted(days)))
month_days = st.integers(1, 31) | st.integers(-28, -1) | st.sampled_from([28, 29, 30, 31, -1])
missing_days = st.sampled_from(MissingDay)
ticks = st.integers(0, 60_000_000)


def month_day_sets() -> st.SearchStrategy[tuple[int, ...]]:
    return st.sets(month_days, min_size=1, max_size=6).map(
        lambda days: tuple(sorted(days, key=lambda day: (day < 0, day)))
    )


def is_possible(rule: Yearly) -> bool:
    return rule.missing_day is not MissingDay.SKIP or rule.day <= _LONGEST[rule.month - 1]


def calendar_rules(
    ats: st.SearchStrategy[tuple[int, ...]] = ats, days: st.SearchStrategy[int] | None = None
) -> st.SearchStrategy[CalendarRule]:
    """Every kind but cron; anchors and dates from `days`."""
    days = st.integers(-700_000, 2_900_000) if days is None else days
    return st.one_of(
        st.builds(Daily, ats),
        st.builds(Weekly, weekday_sets, ats),
        st.builds(Weekly, weekday_sets, ats, st.integers(1, 520) | st.integers(1, 4), days),
        st.builds(MonthlyDays, month_day_sets(), missing_days, ats),
        st.builds(MonthlyWeekday, st.sampled_from([1, 2, 3, 4, 5, -1, -2, -3, -4, -5]), st.integers(0, 6), ats),
        st.builds(MonthlyWorkday, st.integers(1, 20) | st.integers(-20, -1), ats),
        st.builds(Yearly, st.integers(1, 12), month_days, missing_days, ats).filter(is_possible),
        st.builds(Once, days, ats),
    )


every_rules = st.builds(Every, st.integers(1, 3000) | st.integers(1, 527_040), ticks)


@st.composite
def _items(draw: st.DrawFn, least: int, most: int, names: tuple[str, ...], names_from: int) -> str:
    def shown(number: int) -> str:
        index = number - names_from
        if 0 <= index < len(names) and draw(st.integers(0, 3)) == 0:
            return draw(st.sampled_from([names[index], names[index].upper(), names[index].title()]))
        return str(number) if draw(st.integers(0, 5)) else f"{number:02d}"

    first = draw(st.integers(least, most))
    last = draw(st.integers(first, most))
    kind = draw(st.sampled_from(["number", "number", "range", "step", "range-step", "from-step"]))
    step = draw(st.integers(1, most - least))
    if kind == "number":
        return shown(first)
    if kind == "range":
        return f"{shown(first)}-{last}"
    if kind == "step":
        return f"*/{step}"
    if kind == "range-step":
        return f"{first}-{last}/{step}"
    return f"{shown(first)}/{step}"


def _field(least: int, most: int, names: tuple[str, ...] = (), names_from: int = 0) -> st.SearchStrategy[str]:
    items = st.lists(_items(least, most, names, names_from), min_size=1, max_size=3).map(",".join)
    return st.just("*") | items


@st.composite
def cron_expressions(draw: st.DrawFn) -> str:
    """Expressions of every form, not all of which have a date."""
    day = draw(_field(1, 31))
    if draw(st.integers(0, 4)) == 0:
        day = draw(st.sampled_from(["L", "l", "LW", f"{day},L", f"L,{day}", f"1,lw,{day}"]))
    weekday = draw(_field(0, 7, SUNDAY_FIRST))
    if draw(st.integers(0, 3)) == 0:
        name = draw(st.sampled_from([*SUNDAY_FIRST, "FRI", "0", "5", "7"]))
        special = f"{name}{draw(st.sampled_from(['#1', '#2', '#3', '#4', '#5', 'L', 'l']))}"
        weekday = draw(st.sampled_from([special, f"{special},{weekday}", f"{weekday},{special}"]))
    return " ".join((draw(_field(0, 59)), draw(_field(0, 23)), day, draw(_field(1, 12, MONTHS, 1)), weekday))


cron_rules = cron_expressions().map(Cron)
