"""Schedules for calendar tests, and the wheel's bytes."""

from __future__ import annotations

from io import BytesIO
from zoneinfo import ZoneInfo

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.schedule import (
    Delivery,
    Gap,
    LatePolicy,
    Mode,
    OnDelete,
    Overlap,
    Policy,
    Promise,
    Rule,
    Schedule,
)

SKIP_FIRST = Policy(Gap.SKIP, Overlap.FIRST)

HARD_ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "Pacific/Apia",
    "America/Sao_Paulo",
    "Africa/Casablanca",
    "Asia/Gaza",
    "America/Nuuk",
    "Antarctica/Troll",
    "Europe/Dublin",
    "Africa/Monrovia",
    "Asia/Kathmandu",
    "Pacific/Kwajalein",
    "America/Scoresbysund",
    "Asia/Pyongyang",
    "America/Caracas",
    "Antarctica/Casey",
    "Asia/Amman",
    "Pacific/Kiritimati",
    "America/Santiago",
    "Asia/Tehran",
)


def make_schedule(
    rule: Rule,
    *,
    schedule_id: str = "s",
    zone: str = "Europe/Berlin",
    policy: Policy = SKIP_FIRST,
    promise: Promise = Promise.LABEL,
    starts_on: int | None = None,
    ends_on: int | None = None,
    except_dates: tuple[int, ...] = (),
    effective_from: int | None = None,
    paused: bool = False,
    spread_s: int = 0,
    count: int | None = None,
) -> Schedule:
    return Schedule(
        id=schedule_id,
        tenant="default",
        account=None,
        region="eu",
        zone=zone,
        rule=rule,
        policy=policy,
        promise=promise,
        starts_on=starts_on,
        ends_on=ends_on,
        except_dates=except_dates,
        late_policy=LatePolicy.ALL,
        late_grace_s=None,
        spread_s=spread_s,
        mode=Mode.LIVE,
        paused=paused,
        on_delete=OnDelete.CANCEL,
        effective_from=effective_from,
        deliver=Delivery("log", "x", "{}"),
        count=count,
    )


def independent_zone(name: str) -> ZoneInfo:
    """Python's own reader, on the wheel's bytes: never the machine's copy."""
    return ZoneInfo.from_file(BytesIO(wheel_bundle().zones[name]), key=name)
