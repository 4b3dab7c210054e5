"""Each kind of rule against the plainest reading of it, date by date; and the searches against walking."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.dates import LAST_DAY
from streams.domain.elapsed import ElapsedBuckets, next_tick, ticks_between
from streams.domain.minutes import MINUTES_PER_DAY, date_of_day, day_of
from streams.domain.rules import compile_rule
from streams.domain.schedule import (
    CalendarRule,
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
from streams.domain.search import next_day, next_label, nth_label
from tests.effort import examples
from tests.property.rule_strategies import calendar_rules, cron_rules, every_rules

ANY_DAY = st.integers(-719_000, 2_932_000)
MODERN = st.integers(day_of(1990, 1, 1), day_of(2060, 1, 1))


def dates_of(rule: CalendarRule, year: int, month: int) -> set[date]:
    """The dates that a rule has because of one month; those under `next` lie in the month after it."""
    length = monthrange(year, month)[1]
    all_of = [date(year, month, day) for day in range(1, length + 1)]
    match rule:
        case Daily():
            return set(all_of)
        case Weekly(weekdays, _, every_weeks, anchor):
            found = {on for on in all_of if on.weekday() in weekdays}
            if anchor is None:
                return found
            start = date_of_day(anchor)
            monday = start - timedelta(start.weekday())
            weeks = {on: (on - timedelta(on.weekday()) - monday).days // 7 for on in found}
            return {on for on, week in weeks.items() if on >= start and week % every_weeks == 0}
        case MonthlyDays(days, missing_day, _):
            return {on for day in days for on in one_day(year, month, day, missing_day)}
        case Yearly(yearly_month, day, missing_day, _):
            return one_day(year, month, day, missing_day) if month == yearly_month else set()
        case MonthlyWeekday(nth, weekday, _):
            return pick([on for on in all_of if on.weekday() == weekday], nth)
        case MonthlyWorkday(nth, _):
            return pick([on for on in all_of if on.weekday() < 5], nth)
        case Once(day, _):
            return {date_of_day(day)} & set(all_of)
        case _:
            raise AssertionError(rule)


def pick(dates: list[date], nth: int) -> set[date]:
    place = nth - 1 if nth > 0 else len(dates) + nth
    return {dates[place]} if 0 <= place < len(dates) else set()


def one_day(year: int, month: int, day: int, missing_day: MissingDay) -> set[date]:
    length = monthrange(year, month)[1]
    if day < 0:
        return {date(year, month, length + 1 + day)}
    if day <= length:
        return {date(year, month, day)}
    if missing_day is MissingDay.SKIP:
        return set()
    last = date(year, month, length)
    return {last if missing_day is MissingDay.CLAMP else last + timedelta(1)}


@settings(max_examples=examples(200), deadline=None)
@given(st.data(), ANY_DAY | MODERN)
def test_a_rule_has_the_dates_it_says(data: st.DataObject, day: int) -> None:
    rule = data.draw(calendar_rules(days=st.integers(day - 400, day + 100) | st.integers(day + 20, day + 90)))
    compiled = compile_rule(rule)
    assert compiled is compile_rule(rule)
    assert [m for m in range(MINUTES_PER_DAY) if compiled.minutes >> m & 1] == list(rule.at)  # type: ignore[union-attr]
    first = date_of_day(day).replace(day=1)
    wanted: set[date] = set()
    months = [first]
    for _ in range(4):
        months.append((months[-1] + timedelta(31)).replace(day=1))
    for month in months:
        wanted |= dates_of(rule, month.year, month.month)
    on = months[1]
    while on < months[-1]:
        number = day_of(on.year, on.month, on.day)
        assert compiled.predicate.matches(number) is (on in wanted), on
        on += timedelta(1)


any_rules = calendar_rules(days=MODERN) | cron_rules


@settings(max_examples=examples(100), deadline=None)
@given(any_rules, MODERN, st.integers(0, 1439))
def test_the_next_label_is_the_first_that_walking_finds(rule: CalendarRule, day: int, minute: int) -> None:
    compiled = compile_rule(rule)
    label = day * MINUTES_PER_DAY + minute
    following = next_label(compiled, label)
    walked = next(
        (
            on * MINUTES_PER_DAY + m
            for on in range(day, day + 800)
            if compiled.predicate.matches(on)
            for m in range(MINUTES_PER_DAY)
            if compiled.minutes >> m & 1 and on * MINUTES_PER_DAY + m >= label
        ),
        None,
    )
    if walked is not None:
        assert following == walked
    else:
        assert following is None or following >= (day + 800) * MINUTES_PER_DAY
    if following is not None:
        assert compiled.reaches(*divmod(following, MINUTES_PER_DAY))


@settings(max_examples=examples(100), deadline=None)
@given(any_rules, MODERN, st.integers(1, 60))
def test_the_nth_label_is_reached_by_asking_for_the_next(rule: CalendarRule, day: int, nth: int) -> None:
    compiled = compile_rule(rule)
    label = next_label(compiled, day * MINUTES_PER_DAY)
    for _ in range(nth - 1):
        label = None if label is None else next_label(compiled, label + 1)
    assert nth_label(compiled, day, nth) == label


def test_searches_end_where_the_calendar_does() -> None:
    leap = compile_rule(Yearly(2, 29, MissingDay.SKIP, (0,)))
    assert next_day(leap.predicate, day_of(9996, 3, 1)) is None
    assert next_day(leap.predicate, LAST_DAY + 1) is None
    assert next_day(leap.predicate, day_of(2096, 3, 1)) == day_of(2104, 2, 29)
    once = compile_rule(Once(day_of(2027, 3, 14), (540, 600)))
    assert next_label(once, day_of(2027, 3, 14) * MINUTES_PER_DAY + 601) is None
    assert nth_label(once, day_of(2027, 1, 1), 2) == day_of(2027, 3, 14) * MINUTES_PER_DAY + 600
    assert nth_label(once, day_of(2027, 1, 1), 3) is None
    assert nth_label(leap, day_of(2027, 1, 1), 1_000_000) is None
    daily = compile_rule(Daily((0,)))
    assert next_label(daily, LAST_DAY * MINUTES_PER_DAY) == LAST_DAY * MINUTES_PER_DAY
    assert next_label(daily, LAST_DAY * MINUTES_PER_DAY + 1) is None


@given(every_rules, st.integers(-3000, 3000), st.integers(0, 5000))
def test_elapsed_ticks_are_those_a_whole_number_of_intervals_from_the_anchor(
    rule: Every, begin: int, width: int
) -> None:
    first = rule.anchor + begin
    brute = [t for t in range(first, first + width + 1) if t >= rule.anchor and (t - rule.anchor) % rule.minutes == 0]
    assert list(ticks_between(rule, first, first + width)) == brute
    if brute:
        assert next_tick(rule, first) == brute[0]
    buckets: ElapsedBuckets[str] = ElapsedBuckets()
    buckets.add(1, rule, "here")
    assert [t for t in range(max(first, rule.anchor), first + width + 1) if list(buckets.at(t))] == brute
    buckets.discard(1, rule)
    assert not any(list(buckets.at(t)) for t in brute)


@given(st.integers(1, 31), MODERN)
def test_clamp_loses_no_month(number: int, day: int) -> None:
    start = date_of_day(day).replace(day=1)
    compiled = compile_rule(MonthlyDays((number,), MissingDay.CLAMP, (0,)))
    begin = day_of(start.year, start.month, 1)
    found = [date_of_day(on) for on in range(begin, begin + 1461) if compiled.predicate.matches(on)]
    assert len(found) == len({(on.year, on.month) for on in found}) == 48
