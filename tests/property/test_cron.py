"""Cron against a naive reader that asks of one minute at a time, in words, whether the expression means it."""

from __future__ import annotations

from datetime import date, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.domain.document_cron import read_cron
from streams.domain.document_fields import Fields
from streams.domain.errors import Problem
from streams.domain.minutes import day_of
from streams.domain.rules import compile_rule
from streams.domain.schedule import Cron
from streams.domain.search import ever_matches
from tests.effort import examples
from tests.property.rule_strategies import cron_expressions

NAMES = {
    name: number
    for names, start in (("jan feb mar apr may jun jul aug sep oct nov dec", 1), ("sun mon tue wed thu fri sat", 0))
    for number, name in enumerate(names.split(), start)
}


def number(text: str) -> int:
    return NAMES[text] if text in NAMES else int(text)


def means(field: str, value: int, least: int, most: int) -> bool:
    """Whether a plain field means a value; both 0 and 7 are asked for Sunday."""
    for item in field.lower().split(","):
        span, _, step = item.partition("/")
        try:
            if span == "*":
                first, last = least, most
            elif "-" in span:
                first, last = map(number, span.split("-"))
                last = 7 if span.endswith("-sun") and first > 0 else last
            else:
                first = number(span)
                last = most if step else first
        except ValueError:
            continue  # L, LW, #: asked apart
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def same_month(on: date, days: int) -> bool:
    return (on + timedelta(days)).month == on.month


def means_day(field: str, on: date) -> bool:
    items = field.lower().split(",")
    last = not same_month(on, 1)
    last_workday = on.weekday() < 5 and not any(
        same_month(on, later) and (on + timedelta(later)).weekday() < 5 for later in range(1, 32)
    )
    return means(field, on.day, 1, 31) or ("l" in items and last) or ("lw" in items and last_workday)


def means_weekday(field: str, on: date) -> bool:
    sunday_first = on.isoweekday() % 7
    if means(field, sunday_first, 0, 7) or (sunday_first == 0 and means(field, 7, 0, 7)):
        return True
    for item in field.lower().split(","):
        name, _, nth = item.partition("#")
        if nth and number(name) % 7 == sunday_first:
            if sum(same_month(on, -7 * weeks) for weeks in range(1, 6)) + 1 == int(nth):
                return True
        elif not nth and item.endswith("l") and number(item[:-1]) % 7 == sunday_first and not same_month(on, 7):
            return True
    return False


def expected(expression: str, on: date) -> bool:
    _, _, day, month, weekday = expression.split()
    if not means(month, on.month, 1, 12):
        return False
    by_day, by_weekday = means_day(day, on), means_weekday(weekday, on)
    if day.startswith("*") or weekday.startswith("*"):
        return by_day and by_weekday
    return by_day or by_weekday


@settings(max_examples=examples(150), deadline=None)
@given(cron_expressions(), st.dates(date(1, 2, 1), date(9998, 12, 1)))
def test_cron_says_what_the_naive_reader_says(expression: str, begin: date) -> None:
    compiled = compile_rule(Cron(expression))
    minute, hour, *_ = expression.split()
    assert [m for m in range(1440) if compiled.minutes >> m & 1] == [
        m for m in range(1440) if means(minute, m % 60, 0, 59) and means(hour, m // 60, 0, 23)
    ]
    for on in (begin + timedelta(days) for days in range(70)):
        matches = compiled.predicate.matches(day_of(on.year, on.month, on.day))
        assert matches is expected(expression, on), on


@settings(max_examples=examples(100), deadline=None)
@given(cron_expressions())
def test_an_expression_is_read_as_it_stands_or_has_no_date(expression: str) -> None:
    problems: list[Problem] = []
    rule = read_cron(Fields({"kind": "cron", "expression": f"  {expression} "}, (), problems))
    if ever_matches(compile_rule(Cron(expression)).predicate):
        assert rule == Cron(expression)
    else:
        assert [problem.problem for problem in problems] == ["no date ever satisfies it"]
        assert not any(
            expected(expression, date(2000 + year, month, 1) + timedelta(day))
            for year in range(28)
            for month in range(1, 13)
            if means(expression.split()[3], month, 1, 12)
            for day in range(31)
        )
