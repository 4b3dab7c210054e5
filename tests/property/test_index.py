"""`due` (from ticks), `preview` and `upcoming` (from labels) say the same of any schedules, through any edits."""

from __future__ import annotations

from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.index import DictIndex, Due
from streams.domain.keys import elapsed_key, label_key
from streams.domain.minutes import MINUTES_PER_DAY, day_of, format_label
from streams.domain.preview import Decision, preview
from streams.domain.schedule import POLICIES, Cron, Daily, Every, Rule, Schedule
from streams.domain.upcoming import upcoming
from tests.calendar_support import HARD_ZONES, make_schedule
from tests.effort import examples
from tests.property.rule_strategies import calendar_rules

FIRST_DAY = day_of(1993, 1, 1)
LAST_DAY = day_of(2038, 1, 1)


QUARTERS = st.sets(st.integers(0, 95).map(lambda n: 15 * n), min_size=1, max_size=40)
DENSE = QUARTERS.map(lambda minutes: tuple(sorted(minutes)))
# cron rules that have something near any tick
CRONS = st.builds(
    "{} {} {} {} {}".format,
    st.sampled_from(["*/15", "0,30", "7/20"]),
    st.sampled_from(["*", "0-4", "*/2"]),
    st.sampled_from(["*", "*/2", "L,1", "25-31"]),
    st.sampled_from(["*", "mar,apr,sep,oct"]),
    st.sampled_from(["*", "sat-sun", "sunL", "mon"]),
).map(Cron)


@st.composite
def schedules(draw: st.DrawFn, tick: int, zones: list[str]) -> list[Schedule]:
    """Schedules dense around a tick, with bounds, exceptions, counts and effective minutes that cut through it."""
    day = tick // MINUTES_PER_DAY
    days = st.integers(day - 1, day + 1)
    every = st.builds(Every, st.integers(1, 90), st.integers(tick - 200, tick + 100))
    made = []
    for number in range(draw(st.integers(1, 6))):
        rule: Rule = draw(st.builds(Daily, DENSE) | calendar_rules(DENSE, days) | CRONS | every)
        starts_on = draw(st.none() | days)
        made.append(
            make_schedule(
                rule,
                schedule_id=f"s{draw(st.integers(0, 99))}-{number}",
                zone=draw(st.sampled_from(zones)),
                policy=draw(st.sampled_from(POLICIES)),
                starts_on=starts_on,
                ends_on=draw(st.none() | days),
                except_dates=tuple(sorted(draw(st.sets(days, max_size=1)))),
                effective_from=draw(st.none() | st.integers(tick - 120, tick + 120)),
                count=None if starts_on is None else draw(st.none() | st.integers(1, 100)),
            )
        )
    return made


def key_of(schedule: Schedule, tick: int, due: Due) -> str:
    return elapsed_key(schedule.id, tick) if due.label is None else label_key(schedule.id, due.label, due.copy)


def nominal_of(due: Due) -> str | None:
    return None if due.label is None else format_label(due.label)


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_due_preview_and_upcoming_agree(data: st.DataObject) -> None:
    zones = data.draw(st.lists(st.sampled_from(HARD_ZONES), min_size=1, max_size=3))
    somewhere = data.draw(st.integers(FIRST_DAY, LAST_DAY)) * MINUTES_PER_DAY
    change = wheel_bundle().table(zones[0]).next_change(somewhere)
    middle = somewhere if change is None else change
    live = data.draw(schedules(middle, zones))
    replaced = data.draw(schedules(middle, zones))
    index = DictIndex(wheel_bundle())
    for number, schedule in enumerate(replaced):
        index.put(number, schedule)
    index.due(middle)
    for number in range(len(live), len(replaced)):
        index.remove(number)
    for number, schedule in enumerate(live):
        index.put(number, schedule)

    first, last = middle - 200, middle + 200
    found = [
        (tick, live[due.number].id, nominal_of(due), key_of(live[due.number], tick, due))
        for tick in range(first, last)
        for due in index.due(tick)
    ]
    promised = [
        (line.instant, line.schedule_id, line.nominal, line.key)
        for line in preview(live, wheel_bundle(), first, last)
        if line.decision is Decision.FIRE
    ]
    assert found == promised
    for schedule in live:
        coming = upcoming(schedule, wheel_bundle().table(schedule.zone), first)
        ahead = [
            (tick, schedule.id, None if label is None else format_label(label))
            for tick, label, _ in takewhile(lambda fire: fire.tick < last, coming)
        ]
        assert ahead == [line[:3] for line in found if line[1] == schedule.id]
