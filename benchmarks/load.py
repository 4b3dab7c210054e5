"""Schedules to measure with: every one fires once at a minute of its own and once, with all others, in one busy minute.

They are spread over zones and tenants as a customer's are; what is meant is UTC, and each document says it in its own
zone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

from streams.adapters.clock import new_id
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.change import Change, ChangeKind
from streams.domain.minutes import MINUTES_PER_DAY, parse_tick

REGION: Final = "eu"
PROVIDER: Final = "bench"
DAY: Final = parse_tick("2027-02-02T00:00Z")  # no zone below changes its offset around it
_TENANTS: Final = 20
ZONES: Final = (
    "Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "America/Anchorage", "America/Bogota", "America/Chicago",
    "America/Denver", "America/Halifax", "America/Los_Angeles", "America/Mexico_City", "America/New_York",
    "America/Sao_Paulo", "America/St_Johns", "America/Toronto", "Asia/Bangkok", "Asia/Dubai", "Asia/Hong_Kong",
    "Asia/Jakarta", "Asia/Kathmandu", "Asia/Kolkata", "Asia/Manila", "Asia/Seoul", "Asia/Singapore", "Asia/Tokyo",
    "Australia/Adelaide", "Australia/Brisbane", "Australia/Sydney", "Europe/Athens", "Europe/Berlin", "Europe/Dublin",
    "Europe/Helsinki", "Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Madrid", "Europe/Paris",
    "Europe/Stockholm", "Europe/Warsaw", "Pacific/Auckland", "Pacific/Honolulu",
)  # fmt: skip


def put(schedule_id: str, number: int, zone: str, ticks: list[int]) -> Change:
    """A change that makes a daily schedule which, on the day of `ticks`, fires at just these."""
    table = wheel_bundle().table(zone)
    labels = sorted((tick + table.offset_at(tick)) % MINUTES_PER_DAY for tick in ticks)
    document = {
        "id": schedule_id,
        "tenant": f"tenant-{number % _TENANTS:02d}",
        "account": f"A-{number:06d}",
        "region": REGION,
        "zone": zone,
        "rule": {"kind": "daily", "at": [f"{label // 60:02d}:{label % 60:02d}" for label in labels]},
        "deliver": {
            "provider": PROVIDER,
            "to": f"customer-{number}@example.org",
            "payload": {"template": "reminder", "text": "Your appointment is tomorrow", "number": number},
        },
    }
    text = json.dumps(document, separators=(",", ":"))
    return Change(new_id(), ChangeKind.PUT, schedule_id, text, None, None, None, "benchmark")


def day_of_schedules(count: int, spread_minutes: int, busy_minute: int) -> Iterator[Change]:
    """`count` schedules, evenly over the day's first `spread_minutes`, and all of them at `busy_minute` of the day."""
    for number in range(count):
        ticks = [DAY + number * spread_minutes // count, DAY + busy_minute]
        yield put(f"bench-{number:06d}", number, ZONES[number % len(ZONES)], ticks)
