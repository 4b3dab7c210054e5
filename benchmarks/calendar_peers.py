"""The same occurrences by other people's schedulers: from each schedule's cron line, one occurrence after the other.

That is what they do when a job has run: ask its trigger for the next time. They are not required, and one that is not
installed is not measured: `pip install '.[bench]'`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from typing import Final
from zoneinfo import ZoneInfo

from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.schedule import Daily, Schedule, Weekly

Occurrences = Callable[[Schedule], int]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Peer:
    """`prepare` takes the first tick and the one after the last, and gives what counts a schedule's occurrences."""

    name: str
    package: str
    prepare: Callable[[int, int], Occurrences]

    @property
    def version(self) -> str | None:
        """The installed one's."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None


@cache
def zone_of(name: str) -> tzinfo:
    """The same bytes as ours."""
    return ZoneInfo.from_file(BytesIO(wheel_bundle().zones[name]), key=name)


def cron_lines(schedule: Schedule) -> list[str]:
    """A rule as cron says it: a line for each time of day, as minutes and hours multiply."""
    match schedule.rule:
        case Daily(at):
            days = "*"
        case Weekly(weekdays, at):
            days = ",".join(str((weekday + 1) % 7) for weekday in weekdays)
        case _:
            raise AssertionError(f"no cron line for {schedule.rule}")
    return [f"{minute % 60} {minute // 60} * * {days}" for minute in at]


def _between(first: int, end: int, zone: tzinfo) -> tuple[datetime, datetime]:
    start, stop = (_EPOCH + timedelta(minutes=tick) for tick in (first, end))
    return start.astimezone(zone) - timedelta(seconds=1), stop


def _croniter(first: int, end: int) -> Occurrences:
    from croniter import croniter

    def occurrences(schedule: Schedule) -> int:
        start, stop = _between(first, end, zone_of(schedule.zone))
        found = 0
        for line in cron_lines(schedule):
            times = croniter(line, start, ret_type=datetime)
            while times.get_next() < stop:
                found += 1
        return found

    return occurrences


def _cronsim(first: int, end: int) -> Occurrences:
    from cronsim import CronSim

    def occurrences(schedule: Schedule) -> int:
        start, stop = _between(first, end, zone_of(schedule.zone))
        found = 0
        for line in cron_lines(schedule):
            times = CronSim(line, start)
            while next(times) < stop:
                found += 1
        return found

    return occurrences


def _apscheduler(first: int, end: int) -> Occurrences:
    from apscheduler.triggers.cron import CronTrigger

    def occurrences(schedule: Schedule) -> int:
        start, stop = _between(first, end, zone_of(schedule.zone))
        found = 0
        for line in cron_lines(schedule):
            minute, hour, _, _, days = line.split()
            names = days if days == "*" else ",".join(_DAYS[int(day)] for day in days.split(","))
            trigger = CronTrigger(minute=minute, hour=hour, day_of_week=names, timezone=zone_of(schedule.zone))
            at = trigger.get_next_fire_time(None, start)
            while at is not None and at < stop:
                found += 1
                at = trigger.get_next_fire_time(at, at)
        return found

    return occurrences


_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
PEERS: Final = (
    Peer("apscheduler", "APScheduler", _apscheduler),
    Peer("croniter", "croniter", _croniter),
    Peer("cronsim", "cronsim", _cronsim),
)
