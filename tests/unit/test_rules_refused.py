"""Every way in which a rule or a count can be wrong, and exactly what is said: field, problem, value, fix."""

from __future__ import annotations

from typing import Any

import pytest

from streams.domain.document import DocumentContext, parse_document
from streams.domain.document_fields import describe

CONTEXT = DocumentContext(frozenset(("Europe/Berlin",)))
LEAST = {"id": "a", "region": "eu", "zone": "Europe/Berlin", "deliver": {"provider": "log", "to": "x", "payload": None}}
AT = ["09:00"]
START = "2027-01-01T00:00Z"
FIVE = 'write minute, hour, day of month, month and day of week, for instance "30 9 * * 1-5"'
AT_FIX = 'write a list of "HH:MM" times, for instance ["09:00"]'
KINDS = "daily, weekly, monthly, yearly, once, every or cron"

CRON = [
    ("", [f'is empty (""); {FIVE}']),
    ("   ", [f'is empty ("   "); {FIVE}']),
    ("* * * *", [f'has 4 fields, not 5 ("* * * *"); {FIVE}']),
    ("* * * * * *", [f'has 6 fields, not 5: seconds, and years, have no place in it ("* * * * * *"); {FIVE}']),
    ("0 0 0 0 1 1 2027", [f'has 7 fields, not 5 ("0 0 0 0 1 1 2027"); {FIVE}']),
    ("@daily", ['a nickname, not five fields ("@daily"); write "0 0 * * *"']),
    ("@reboot", [f'a nickname that stands for no time ("@reboot"); {FIVE}']),
    ("@sometimes", [f'a nickname that stands for no time ("@sometimes"); {FIVE}']),
    ("60 * * * *", ['minute: 60 is out of range ("60 * * * *"); allowed: 0 to 59']),
    ("* 24 * * *", ['hour: 24 is out of range ("* 24 * * *"); allowed: 0 to 23']),
    ("* * 0 * *", ['day of month: 0 is out of range ("* * 0 * *"); allowed: 1 to 31']),
    ("* * 32 * *", ['day of month: 32 is out of range ("* * 32 * *"); allowed: 1 to 31']),
    ("* * * 0 *", ['month: 0 is out of range ("* * * 0 *"); allowed: 1 to 12, jan to dec']),
    ("* * * 13 *", ['month: 13 is out of range ("* * * 13 *"); allowed: 1 to 12, jan to dec']),
    ("* * * * 8", ['day of week: 8 is out of range ("* * * * 8"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)']),
    ("-1 * * * *", ['minute: a number is missing ("-1 * * * *"); allowed: 0 to 59']),
    ("99999 * * * *", ['minute: 99999 is out of range ("99999 * * * *"); allowed: 0 to 59']),
    ("*/0 * * * *", ['minute: "0" is not a step ("*/0 * * * *"); write a step of 1 to 59']),
    (
        "*/60 * * * *",
        ['minute: "60" is not a step ("*/60 * * * *"); write a step of 1 to 59, or use {kind: every, minutes: 60}'],
    ),
    (
        "* */24 * * *",
        ['hour: "24" is not a step ("* */24 * * *"); write a step of 1 to 23, or use {kind: every, hours: 24}'],
    ),
    ("*/ * * * *", ['minute: the step is missing ("*/ * * * *"); write a step of 1 to 59']),
    ("*/x * * * *", ['minute: "x" is not a step ("*/x * * * *"); write a step of 1 to 59']),
    ("*/-5 * * * *", ['minute: "-5" is not a step ("*/-5 * * * *"); write a step of 1 to 59']),
    ("5/5/5 * * * *", ['minute: "5/5" is not a step ("5/5/5 * * * *"); write a step of 1 to 59']),
    ("1, * * * *", ['minute: an item of the list is empty ("1, * * * *"); take out the comma too many']),
    (",1 * * * *", ['minute: an item of the list is empty (",1 * * * *"); take out the comma too many']),
    ("1,,2 * * * *", ['minute: an item of the list is empty ("1,,2 * * * *"); take out the comma too many']),
    ("30-10 * * * *", ['minute: 30-10 runs backwards ("30-10 * * * *"); write 30-59,0-10']),
    ("10- * * * *", ['minute: a number is missing ("10- * * * *"); allowed: 0 to 59']),
    ("-10 * * * *", ['minute: a number is missing ("-10 * * * *"); allowed: 0 to 59']),
    ("1-2-3 * * * *", ['minute: "2-3" is not a number ("1-2-3 * * * *"); allowed: 0 to 59']),
    ("* 22-2 * * *", ['hour: 22-2 runs backwards ("* 22-2 * * *"); write 22-23,0-2']),
    ("* * * nov-feb *", ['month: nov-feb runs backwards ("* * * nov-feb *"); write 11-12,1-2']),
    ("* * * * fri-tue", ['day of week: fri-tue runs backwards ("* * * * fri-tue"); write 5-6,0-2']),
    ("* * * * 5-0", ['day of week: 5-0 runs backwards ("* * * * 5-0"); write 5-7']),
    ("* * * * monday", ['day of week: "monday" is not a number or a name ("* * * * monday"); write mon']),
    ("* * * january *", ['month: "january" is not a number or a name ("* * * january *"); write jan']),
    ("* * * foo *", ['month: "foo" is not a number or a name ("* * * foo *"); allowed: 1 to 12, jan to dec']),
    (
        "* * * * m",
        ['day of week: "m" is not a number or a name ("* * * * m"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)'],
    ),
    ("x * * * *", ['minute: "x" is not a number ("x * * * *"); allowed: 0 to 59']),
    ("1.5 * * * *", ['minute: "1.5" is not a number ("1.5 * * * *"); allowed: 0 to 59']),
    ("** * * * *", ['minute: "**" is not a number ("** * * * *"); allowed: 0 to 59']),
    ("*5 * * * *", ['minute: "*5" is not a number ("*5 * * * *"); allowed: 0 to 59']),
    ("٣ * * * *", ['minute: "٣" is not a number ("٣ * * * *"); allowed: 0 to 59']),
    ("* * ? * *", ['day of month: ? is not known here ("* * ? * *"); write *']),
    ("* * * * ?", ['day of week: ? is not known here ("* * * * ?"); write *']),
    (
        "* * 15W * *",
        ['day of month: 15W is not known here ("* * 15W * *"); write days, L for the last, LW for the last workday'],
    ),
    (
        "* * L-3 * *",
        ['day of month: L-3 is not known here ("* * L-3 * *"); write days, L for the last, LW for the last workday'],
    ),
    ("* * * * L", ['day of week: L is not known here ("* * * * L"); write 6L for the last of the month, 6 for each']),
    (
        "* * * * L5",
        ['day of week: L5 is not known here ("* * * * L5"); write 5L for the last of the month, 5 for each'],
    ),
    ("* * * * 5#6", ['day of week: #6 is not one of a month\'s weekdays ("* * * * 5#6"); write 5#1 to 5#5, or 5L']),
    (
        "* * * * fri#0",
        ['day of week: #0 is not one of a month\'s weekdays ("* * * * fri#0"); write fri#1 to fri#5, or friL'],
    ),
    (
        "* * * * fri#",
        ['day of week: # is not one of a month\'s weekdays ("* * * * fri#"); write fri#1 to fri#5, or friL'],
    ),
    (
        "* * * * #2",
        ['day of week: a number is missing ("* * * * #2"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)'],
    ),
    (
        "* * * * 8#1",
        ['day of week: 8 is out of range ("* * * * 8#1"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)'],
    ),
    (
        "* * * * fri#-1",
        ['day of week: #-1 is not one of a month\'s weekdays ("* * * * fri#-1"); write fri#1 to fri#5, or friL'],
    ),
    ("* * * * 9L", ['day of week: 9 is out of range ("* * * * 9L"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)']),
    ("L * * * *", ['minute: "L" is not a number ("L * * * *"); allowed: 0 to 59']),
    ("* L * * *", ['hour: "L" is not a number ("* L * * *"); allowed: 0 to 23']),
    ("* * * L *", ['month: "L" is not a number or a name ("* * * L *"); allowed: 1 to 12, jan to dec']),
    ("* * 1L * *", ['day of month: "1L" is not a number ("* * 1L * *"); allowed: 1 to 31']),
    ("0 0 31 2 *", ['no date ever satisfies it ("0 0 31 2 *"); write a day that the months have']),
    ("0 0 30 2 *", ['no date ever satisfies it ("0 0 30 2 *"); write a day that the months have']),
    ("0 0 31 4,6,9,11 *", ['no date ever satisfies it ("0 0 31 4,6,9,11 *"); write a day that the months have']),
    ("0 0 31 2 */2", ['no date ever satisfies it ("0 0 31 2 */2"); write a day that the months have']),
    (
        "61 25 32 13 8",
        [
            'minute: 61 is out of range ("61 25 32 13 8"); allowed: 0 to 59',
            'hour: 25 is out of range ("61 25 32 13 8"); allowed: 0 to 23',
            'day of month: 32 is out of range ("61 25 32 13 8"); allowed: 1 to 31',
            'month: 13 is out of range ("61 25 32 13 8"); allowed: 1 to 12, jan to dec',
            'day of week: 8 is out of range ("61 25 32 13 8"); allowed: 0 to 7, sun to sat (0 and 7 are Sunday)',
        ],
    ),
]
RULES: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "cron"}, [f"rule.expression: missing; {FIVE}"]),
    ({"kind": "cron", "expression": None}, [f"rule.expression: has no value (null); {FIVE}"]),
    ({"kind": "cron", "expression": 5}, ["rule.expression: must be text, not a number (5); write it in quotes"]),
    (
        {"kind": "cron", "expression": ["* * * * *"]},
        ['rule.expression: must be text, not a list (["* * * * *"]); write text'],
    ),
    (
        {"kind": "cron", "expression": "0 0 * * *", "at": AT},
        ['rule.at: there is no such field (["09:00"]); allowed: kind or expression'],
    ),
    (
        {"kind": "crn", "expression": "0 0 * * *"},
        ['rule.kind: there is no such kind of rule ("crn"); did you mean cron?'],
    ),
    (
        {"kind": ["cron"]},
        [f'rule.kind: must be text, not a list (["cron"]); allowed: {KINDS}'],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 2},
        ["rule.anchor: missing; write a date in a week that it runs in, for instance 2027-01-04"],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 0, "anchor": "2027-01-04"},
        ["rule.every_weeks: is out of range (0); write 1 to 520"],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 521, "anchor": "2027-01-04"},
        ["rule.every_weeks: is out of range (521); write 1 to 520"],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": "2", "anchor": "2027-01-04"},
        ['rule.every_weeks: must be a whole number, not text ("2"); write 1 to 520'],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": True, "anchor": "2027-01-04"},
        ["rule.every_weeks: must be a whole number, not true or false (true); write 1 to 520"],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 2, "anchor": "2027-02-29"},
        ['rule.anchor: there is no such date ("2027-02-29"); write a date of the Gregorian calendar'],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 2, "anchor": "4.1.2027"},
        ['rule.anchor: not a date ("4.1.2027"); write YYYY-MM-DD'],
    ),
    (
        {"kind": "weekly", "weekdays": ["mon"], "at": AT, "every_weeks": 1.5},
        ["rule.every_weeks: not a whole number (1.5); write 1 to 520"],
    ),
    ({"kind": "monthly", "at": AT}, ["rule.days: missing; write days: [31], or nth: 2 and weekday: tue"]),
    (
        {"kind": "monthly", "days": [], "at": AT},
        ["rule.days: is empty ([]); write a list of days, for instance [15, -1]; -1 is the last"],
    ),
    (
        {"kind": "monthly", "days": 31, "at": AT},
        ["rule.days: must be a list, not a number (31); write a list of days, for instance [15, -1]; -1 is the last"],
    ),
    ({"kind": "monthly", "days": [0], "at": AT}, ["rule.days[0]: is out of range (0); write 1 to 31 or -1 to -28"]),
    (
        {"kind": "monthly", "days": [32, -29, 1], "at": AT},
        [
            "rule.days[0]: is out of range (32); write 1 to 31 or -1 to -28",
            "rule.days[1]: is out of range (-29); write 1 to 31 or -1 to -28",
        ],
    ),
    (
        {"kind": "monthly", "days": ["31"], "at": AT},
        ['rule.days[0]: must be a whole number, not text ("31"); write 1 to 31 or -1 to -28'],
    ),
    ({"kind": "monthly", "days": [1, 1], "at": AT}, ["rule.days[1]: stands twice in days (1); write it once"]),
    (
        {"kind": "monthly", "days": [31.0], "at": AT},
        ["rule.days[0]: not a whole number (31.0); write 1 to 31 or -1 to -28"],
    ),
    (
        {"kind": "monthly", "days": [31], "missing_day": "last", "at": AT},
        ['rule.missing_day: not a choice here ("last"); allowed: skip, clamp or next'],
    ),
    (
        {"kind": "monthly", "days": [31], "missing_day": None, "at": AT},
        ["rule.missing_day: must be text, not nothing (null); allowed: skip, clamp or next"],
    ),
    ({"kind": "monthly", "days": [31]}, [f"rule.at: missing; {AT_FIX}"]),
    (
        {"kind": "monthly", "days": [1], "nth": 1, "weekday": "mon", "at": AT},
        ["rule.nth: days is there as well (1); write days: [31], or nth: 2 and weekday: tue"],
    ),
    (
        {"kind": "monthly", "nth": 1, "at": AT},
        ["rule.weekday: missing; allowed: mon, tue, wed, thu, fri, sat, sun or workday"],
    ),
    ({"kind": "monthly", "weekday": "mon", "at": AT}, ["rule.nth: missing; write which: 1 is the first, -1 the last"]),
    (
        {"kind": "monthly", "nth": 6, "weekday": "mon", "at": AT},
        ["rule.nth: is out of range (6); write 1 to 5 or -1 to -5"],
    ),
    (
        {"kind": "monthly", "nth": 0, "weekday": "mon", "at": AT},
        ["rule.nth: is out of range (0); write 1 to 5 or -1 to -5"],
    ),
    (
        {"kind": "monthly", "nth": 21, "weekday": "workday", "at": AT},
        ["rule.nth: is out of range (21); write 1 to 20 or -1 to -20"],
    ),
    (
        {"kind": "monthly", "nth": "last", "weekday": "mon", "at": AT},
        ['rule.nth: must be a whole number, not text ("last"); write 1 to 5 or -1 to -5'],
    ),
    (
        {"kind": "monthly", "nth": 1, "weekday": "monday", "at": AT},
        ['rule.weekday: not a weekday ("monday"); did you mean mon?'],
    ),
    (
        {"kind": "monthly", "nth": 1, "weekday": ["mon"], "at": AT},
        ['rule.weekday: not a weekday (["mon"]); allowed: mon, tue, wed, thu, fri, sat, sun or workday'],
    ),
    (
        {"kind": "monthly", "nth": 1, "weekday": "mon", "missing_day": "skip", "at": AT},
        ['rule.missing_day: there is no such field ("skip"); allowed: kind, nth, weekday or at'],
    ),
    (
        {"kind": "yearly", "at": AT},
        ["rule.month: missing; write 1 to 12", "rule.day: missing; write 1 to 31, or -1: the last"],
    ),
    ({"kind": "yearly", "month": 13, "day": 1, "at": AT}, ["rule.month: is out of range (13); write 1 to 12"]),
    (
        {"kind": "yearly", "month": "feb", "day": 1, "at": AT},
        ['rule.month: must be a whole number, not text ("feb"); write 1 to 12'],
    ),
    (
        {"kind": "yearly", "month": 2, "day": 30, "at": AT},
        ["rule.day: February never has it (30); write 1 to 29, or missing_day: clamp or next"],
    ),
    (
        {"kind": "yearly", "month": 4, "day": 31, "missing_day": "skip", "at": AT},
        ["rule.day: April never has it (31); write 1 to 30, or missing_day: clamp or next"],
    ),
    ({"kind": "yearly", "month": 4, "day": 0, "at": AT}, ["rule.day: is out of range (0); write 1 to 31 or -1 to -28"]),
    (
        {"kind": "yearly", "month": 4, "days": [1], "at": AT},
        [
            "rule.days: there is no such field ([1]); did you mean day?",
            "rule.day: missing; write 1 to 31, or -1: the last",
        ],
    ),
    ({"kind": "once", "at": AT}, ["rule.date: missing; write YYYY-MM-DD"]),
    (
        {"kind": "once", "date": "2027-02-29", "at": AT},
        ['rule.date: there is no such date ("2027-02-29"); write a date of the Gregorian calendar'],
    ),
    ({"kind": "once", "date": "14.3.2027", "at": AT}, ['rule.date: not a date ("14.3.2027"); write YYYY-MM-DD']),
    ({"kind": "once", "date": 20270314, "at": AT}, ["rule.date: not a date (20270314); write YYYY-MM-DD"]),
    ({"kind": "once", "date": "2027-03-14"}, [f"rule.at: missing; {AT_FIX}"]),
    ({"kind": "once", "date": "10000-01-01", "at": AT}, ['rule.date: not a date ("10000-01-01"); write YYYY-MM-DD']),
    (
        {"kind": "once", "date": "2027-03-14T09:00"},
        ['rule.date: not a date ("2027-03-14T09:00"); write YYYY-MM-DD', f"rule.at: missing; {AT_FIX}"],
    ),
    (
        {"kind": "once", "dates": ["2027-03-14"], "at": AT},
        [
            'rule.dates: there is no such field (["2027-03-14"]); did you mean date?',
            "rule.date: missing; write YYYY-MM-DD",
        ],
    ),
    ({"kind": "every", "anchor": START}, ["rule.minutes: missing; write minutes: 90, or hours: 6"]),
    (
        {"kind": "every", "minutes": 90},
        ["rule.anchor: missing; write the UTC minute of the first run, for instance 2027-01-01T00:00Z"],
    ),
    ({"kind": "every", "minutes": 0, "anchor": START}, ["rule.minutes: is out of range (0); write 1 to 527040"]),
    (
        {"kind": "every", "minutes": 527041, "anchor": START},
        ["rule.minutes: is out of range (527041); write 1 to 527040"],
    ),
    ({"kind": "every", "hours": 8785, "anchor": START}, ["rule.hours: is out of range (8785); write 1 to 8784"]),
    ({"kind": "every", "minutes": 0.5, "anchor": START}, ["rule.minutes: not a whole number (0.5); write 1 to 527040"]),
    (
        {"kind": "every", "minutes": "90", "anchor": START},
        ['rule.minutes: must be a whole number, not text ("90"); write 1 to 527040'],
    ),
    (
        {"kind": "every", "minutes": 30, "hours": 1, "anchor": START},
        ["rule.hours: minutes is there as well (1); write minutes: 90, or hours: 6"],
    ),
    (
        {"kind": "every", "seconds": 30, "anchor": START},
        ["rule.seconds: finer than a minute (30); write minutes: 90, or hours: 6"],
    ),
    (
        {"kind": "every", "minutes": 90, "anchor": "2027-01-01T00:00"},
        ['rule.anchor: not a UTC minute ("2027-01-01T00:00"); write YYYY-MM-DDTHH:MMZ'],
    ),
    (
        {"kind": "every", "minutes": 90, "anchor": "2027-01-01T00:00:30Z"},
        ['rule.anchor: not a UTC minute ("2027-01-01T00:00:30Z"); write YYYY-MM-DDTHH:MMZ'],
    ),
    (
        {"kind": "every", "minutes": 90, "anchor": "2027-01-01T00:00+01:00"},
        ['rule.anchor: not a UTC minute ("2027-01-01T00:00+01:00"); write YYYY-MM-DDTHH:MMZ'],
    ),
    (
        {"kind": "every", "minutes": 90, "anchor": "2027-01-01"},
        ['rule.anchor: not a UTC minute ("2027-01-01"); write YYYY-MM-DDTHH:MMZ'],
    ),
    (
        {"kind": "every", "minutes": 90, "anchor": START, "at": AT},
        ['rule.at: there is no such field (["09:00"]); allowed: kind, minutes, hours or anchor'],
    ),
]
COUNTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"count": 0, "starts_on": "2027-01-01"}, ["count: is out of range (0); write 1 to 1000000"]),
    ({"count": -1, "starts_on": "2027-01-01"}, ["count: is out of range (-1); write 1 to 1000000"]),
    ({"count": 1000001, "starts_on": "2027-01-01"}, ["count: is out of range (1000001); write 1 to 1000000"]),
    (
        {"count": "10", "starts_on": "2027-01-01"},
        ['count: must be a whole number, not text ("10"); write 1 to 1000000'],
    ),
    ({"count": 1.5, "starts_on": "2027-01-01"}, ["count: not a whole number (1.5); write 1 to 1000000"]),
    (
        {"count": True, "starts_on": "2027-01-01"},
        ["count: must be a whole number, not true or false (true); write 1 to 1000000"],
    ),
    (
        {"count": [10], "starts_on": "2027-01-01"},
        ["count: must be a whole number, not a list ([10]); write 1 to 1000000"],
    ),
    ({"count": 10}, ["count: counts from starts_on, which is missing (10); write starts_on: YYYY-MM-DD"]),
    (
        {"count": 10, "starts_on": "2027-13-01"},
        ['starts_on: there is no such date ("2027-13-01"); write a date of the Gregorian calendar'],
    ),
]


def problems(rule: dict[str, Any], **fields: Any) -> list[str]:
    outcome = parse_document({**LEAST, "rule": rule, **fields}, CONTEXT)
    assert isinstance(outcome, list), outcome
    return [describe(problem) for problem in outcome]


@pytest.mark.parametrize(("expression", "said"), CRON, ids=[repr(expression) for expression, _ in CRON])
def test_a_cron_expression_that_is_none(expression: str, said: list[str]) -> None:
    found = problems({"kind": "cron", "expression": expression})
    assert found == [f"rule.expression: {text}" for text in said]


@pytest.mark.parametrize(("rule", "said"), RULES, ids=[str(rule)[:70] for rule, _ in RULES])
def test_a_rule_that_is_none(rule: dict[str, Any], said: list[str]) -> None:
    assert problems(rule) == said


@pytest.mark.parametrize(("fields", "said"), COUNTS, ids=[str(fields) for fields, _ in COUNTS])
def test_a_count_that_is_none(fields: dict[str, Any], said: list[str]) -> None:
    assert problems({"kind": "daily", "at": AT}, **fields) == said


def test_an_expression_has_a_limit() -> None:
    assert problems({"kind": "cron", "expression": "1," * 501})[0].startswith(
        "rule.expression: is 1002 characters long"
    )
