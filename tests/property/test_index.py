"""`due` (from ticks) and `preview` (from labels) say the same of any set of schedules, through any edits."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.index import DictIndex
from streams.domain.keys import label_key
from streams.domain.minutes import MINUTES_PER_DAY, day_of, format_label
from streams.domain.preview import Decision, preview
from streams.domain.schedule import POLICIES, Daily, Rule, Schedule, Weekly
from tests.calendar_support import HARD_ZONES, make_schedule
from tests.effort import examples

FIRST_DAY = day_of(1993, 1, 1)
LAST_DAY = day_of(2038, 1, 1)


@st.composite
def schedules(draw: st.DrawFn, tick: int, zones: list[str]) -> list[Schedule]:
    """Schedules dense around a tick, with bounds, exceptions and effective minutes that cut through it."""
    day = tick // MINUTES_PER_DAY
    days = st.integers(day - 1, day + 1)
    made = []
    for number in range(draw(st.integers(1, 6))):
        at = tuple(sorted(draw(st.sets(st.integers(0, 95).map(lambda n: 15 * n), min_size=1, max_size=40))))
        weekdays = draw(st.none() | st.sets(st.integers(0, 6), min_size=1))
        rule: Rule = Daily(at) if weekdays is None else Weekly(tuple(sorted(weekdays)), at)
        made.append(
            make_schedule(
                rule,
                schedule_id=f"s{draw(st.integers(0, 99))}-{number}",
                zone=draw(st.sampled_from(zones)),
                policy=draw(st.sampled_from(POLICIES)),
                starts_on=draw(st.none() | days),
                ends_on=draw(st.none() | days),
                except_dates=tuple(sorted(draw(st.sets(days, max_size=1)))),
                effective_from=draw(st.none() | st.integers(tick - 120, tick + 120)),
            )
        )
    return made


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_due_and_preview_agree(data: st.DataObject) -> None:
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
        (
            tick,
            live[due.number].id,
            None if due.label is None else format_label(due.label),
            label_key(live[due.number].id, due.label, due.copy),
        )
        for tick in range(first, last)
        for due in index.due(tick)
    ]
    promised = [
        (line.instant, line.schedule_id, line.nominal, line.key)
        for line in preview(live, wheel_bundle(), first, last)
        if line.decision is Decision.FIRE
    ]
    assert found == promised
