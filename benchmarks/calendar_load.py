"""Schedules to measure the index with: 400 zones, two times of day each, and 48 of 1,000 at one minute everywhere."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.bundle import ZoneBundle
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick
from streams.domain.schedule import (
    POLICIES,
    Daily,
    Delivery,
    LatePolicy,
    Mode,
    OnDelete,
    Promise,
    Rule,
    Schedule,
    Weekly,
)

BUSY: Final = parse_tick("2027-02-02T09:00Z")  # a Tuesday, with no change of a clock for days around it
_ZONES = 400
_BUSY_OF_THOUSAND = 48
_GRID = 5  # people choose round times
_HOURS_BETWEEN = (3, 4, 6, 8, 9, 12)
_WEEKDAYS = ((0, 1, 2, 3, 4), (0, 3), (1, 4), (5, 6), (0, 2, 4))
_SEED = 20_270_202


@dataclass(frozen=True, slots=True)
class CalendarLoad:
    """Schedules by id, and since when they are in force."""

    bundle: ZoneBundle
    schedules: list[Schedule]
    since: int

    @classmethod
    def of(cls, count: int) -> CalendarLoad:
        """`count` schedules, the same each time."""
        bundle = wheel_bundle()
        chance = random.Random(_SEED)
        zones = zones_of(bundle)
        offsets = [bundle.table(zone).offset_at(BUSY) for zone in zones]
        shared: dict[Rule, Rule] = {}
        made = []
        for number in range(count):
            zone = chance.randrange(len(zones))
            busy = (BUSY + offsets[zone]) % MINUTES_PER_DAY
            rule = _rule(chance, busy, number % 1_000 < _BUSY_OF_THOUSAND)
            made.append(_schedule(f"bench-{number:08d}", zones[zone], shared.setdefault(rule, rule), chance))
        return cls(bundle, made, BUSY - MINUTES_PER_DAY)


@cache
def zones_of(bundle: ZoneBundle) -> tuple[str, ...]:
    """400 zones, evenly over the names, of those whose offset is a multiple of the grid."""
    fit = [name for name in bundle.names if bundle.table(name).offset_at(BUSY) % _GRID == 0]
    return tuple(fit[at * len(fit) // _ZONES] for at in range(_ZONES))


def _rule(chance: random.Random, busy: int, at_busy: bool) -> Rule:
    while True:
        minute = busy if at_busy else chance.randrange(0, MINUTES_PER_DAY, _GRID)
        again = (minute + 60 * chance.choice(_HOURS_BETWEEN)) % MINUTES_PER_DAY
        if at_busy or busy not in (minute, again):
            break
    at = (min(minute, again), max(minute, again))
    return Daily(at) if at_busy or chance.random() < 0.7 else Weekly(chance.choice(_WEEKDAYS), at)


_MODEL: Final = Schedule(
    id="", tenant="default", account=None, region="eu", zone="UTC", rule=Daily((0,)), policy=POLICIES[0],
    promise=Promise.LABEL, starts_on=None, ends_on=None, except_dates=(), late_policy=LatePolicy.ALL,
    late_grace_s=None, spread_s=0, mode=Mode.LIVE, paused=False, on_delete=OnDelete.CANCEL, effective_from=None,
    deliver=Delivery("log", "x", "{}"),
)  # fmt: skip


def _schedule(schedule_id: str, zone: str, rule: Rule, chance: random.Random) -> Schedule:
    policy = POLICIES[chance.randrange(len(POLICIES))]
    return replace(_MODEL, id=schedule_id, zone=zone, rule=rule, policy=policy)
