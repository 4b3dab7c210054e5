"""The pipeline measured part by part, each real process alone with what it needs: register, evaluate, intake, deliver.

The parts follow one another over the same schedules: what one wrote, the next one reads. Times come from the records
and rows themselves (append times of the broker, transaction times of the database), so no part is charged for its
start-up, and no polling of ours is in a figure, unless it says so.
"""

from __future__ import annotations

from benchmarks.figures import Figure, Spent, rate
from benchmarks.ground import Ground, workers
from benchmarks.load import DAY, PROVIDER, REGION, day_of_schedules, put
from benchmarks.sizes import Sizes
from streams.adapters.kafka.admin_calls import commit_memberless
from streams.adapters.postgres.base import statements
from streams.domain.errors import BrokenPromise
from streams.domain.minutes import format_tick
from streams.entrypoints.supervise import Spec

# Far above what a worker can do: the budget is asked, and never waited for.
QUOTA_PER_S, QUOTA_BURST = 8000.0, 800

_TAKEN_IN = "SELECT sum(next_offset), sum(duplicates) FROM source_offset WHERE topic = %s"
# From the begin of the first batch to the begin of the last: all but the last were handled in between.
_BATCHES = "SELECT {at} AS at, {count} AS records FROM {table} GROUP BY {at}"
_RATE = (
    "SELECT sum(records) - (array_agg(records ORDER BY at DESC))[1],"
    " extract(epoch FROM max(at) - min(at)), count(*) FROM ({batches}) b"
)
_TAKEN = _RATE.format(batches=_BATCHES.format(at="recorded_at", count="count(*)", table="occurrence"))
_REPEATED = _RATE.format(batches=_BATCHES.format(at="at", count="sum(duplicates)", table="duplicate_batch"))
_LANDED = "SELECT count(*) FROM schedule WHERE landed_sequence >= sequence"
_SESSIONS = "SELECT count(*) FROM worker_session WHERE NOT ended AND expires_at > clock_timestamp()"
_AT_REST = "SELECT (SELECT count(*) FROM queue WHERE state IN ('leased', 'sending')), (SELECT count(*) FROM attempt)"
_DONE = (
    "SELECT count(*), extract(epoch FROM max(finished_at)) FROM attempt"
    " WHERE outcome = 'done' AND finished_at BETWEEN to_timestamp(%s) AND to_timestamp(%s)"
)
_NOT_DONE = (
    "SELECT coalesce(outcome, 'in flight'), count(*), min(detail) FROM attempt"
    " WHERE outcome IS DISTINCT FROM 'done' GROUP BY outcome"
)


_ODD = ("rate_limited", "duplicates", "replayed", "in_progress", "lost_answers", "mismatched")


class Flow:
    """The parts, to be called in their order. Each raises BrokenPromise rather than report what it did not see."""

    def __init__(self, ground: Ground, sizes: Sizes) -> None:
        """On an installation with a scenario clock, prepared."""
        self._ground = ground
        self._sizes = sizes
        self._expected = 0

    def register(self) -> list[Figure]:
        """Changes, published at once: from the append of the first to the append of the last plan on `schedules`."""
        ground, count = self._ground, self._sizes.schedules
        ground.start(Spec("registrar", ("registrar",)), Spec("relay", ("relay",)))
        ground.publish([put("bench.first", 0, "Etc/UTC", [DAY + self._sizes.busy_minute + 60])])
        ground.wait(lambda: ground.count(ground.names.schedules) == 1, "the first schedule")
        before, cpu_s = ground.ends(ground.names.schedule_changes), ground.cpu_s("registrar", "relay")
        ground.publish(day_of_schedules(count, self._sizes.spread_minutes, self._sizes.busy_minute))
        ground.wait(lambda: ground.count(ground.names.schedules) >= count + 1, "every schedule")
        if refused := ground.count(ground.names.rejected):
            raise BrokenPromise(f"{refused} changes were refused")
        began_s = ground.first_time_s(ground.names.schedule_changes, before)
        seconds = ground.last_time_s(ground.names.schedules) - began_s
        ground.wait(lambda: ground.number(_LANDED) == count + 1, "every plan read back")
        spent = Spent.between(cpu_s, ground.cpu_s("registrar", "relay"), count)
        ground.stop("registrar", "relay")
        what = "schedule changes → registrar → relay → visible on schedules"
        return [rate("register_per_s", what, count, seconds, spent)]

    def evaluate(self) -> list[Figure]:
        """Ticks, appended by a ticker: from the append of the first to the last cursor, seen within 10 ms."""
        ground, sizes = self._ground, self._sizes
        ground.start(Spec("processor-1", ("processor",)))
        self._tick(DAY - 1, DAY)  # the partitions are owned, their plans read
        spread_s, spread = self._tick(DAY, DAY + sizes.spread_minutes, sizes.schedules)
        self._tick(DAY + sizes.spread_minutes, DAY + sizes.busy_minute)
        busy_s, busy = self._tick(DAY + sizes.busy_minute, DAY + sizes.busy_minute + 1, sizes.schedules)
        ground.stop("processor-1")
        over, one = f"evaluated, encoded, acknowledged: spread over {sizes.spread_minutes} minutes", "all in one minute"
        return [
            rate("evaluate_per_s", over, sizes.schedules, spread_s, spread, minutes=sizes.spread_minutes),
            rate("evaluate_busy_minute_per_s", f"the same, {one}", sizes.schedules, busy_s, busy),
        ]

    def _tick(self, first: int, end: int, due: int = 0) -> tuple[float, Spent]:
        """Run a ticker over minutes; how long they took to be joined. So many occurrences must have come of it."""
        ground = self._ground
        before, cpu_s = ground.ends(ground.names.ticks), ground.cpu_s("processor-1")
        ticker = Spec("ticker", ("ticker", "--from", format_tick(first), "--to", format_tick(end)), once=True)
        ground.start(ticker)
        joined_s = ground.joined_to(end - 1)
        spent = Spent.between(cpu_s, ground.cpu_s("processor-1"), due)
        ground.wait(lambda: ground.family.children["ticker"].exit_status is not None, "the ticker's end")
        self._expected += due
        found = ground.count(ground.occurrences)
        if found != self._expected:
            raise BrokenPromise(f"up to {format_tick(end)} there are {found} occurrences, not {self._expected}")
        return joined_s - ground.first_time_s(ground.names.ticks, before), spent

    def intake(self) -> list[Figure]:
        """All occurrences into the ledger by one worker, its lane on hold; then the same records once more."""
        ground, total = self._ground, self._expected
        self._make_held_lane()
        first = self._take_in("intake_per_s", _TAKEN, "occurrences from the topic into the ledger, one worker", 0)
        ground.stop("deliver-1")
        beginning = dict.fromkeys(range(ground.partitions), 0)
        commit_memberless(ground.admin, ground.names.deliver_group(REGION), ground.occurrences, beginning, "")
        what = "the same records read again: recognised and counted, one worker"
        second = self._take_in("duplicates_per_s", _REPEATED, what, 1)
        if (rows := ground.number("SELECT count(*) FROM occurrence")) != total:
            raise BrokenPromise(f"the ledger has {rows:.0f} occurrences, not {total}")
        return [first, second]

    def _take_in(self, key: str, statement: str, what: str, column: int) -> Figure:
        """Start a worker, and wait until all is counted: as taken in (column 0) or as duplicates (1)."""
        ground, total = self._ground, self._expected
        ground.start(*workers(1, 1))
        begun = int(ground.wait(lambda: self._taken_in()[column], "the first batch", poll_s=0.02))
        cpu_s = ground.cpu_s("deliver-1")
        ground.wait(lambda: self._taken_in() == (total, total * column), "intake")
        spent = Spent.between(cpu_s, ground.cpu_s("deliver-1"), total - begun)
        records, seconds, batches = (float(str(value or 0)) for value in ground.rows(statement)[0])
        return rate(key, what, int(records), seconds, spent, batches=int(batches))

    def _taken_in(self) -> tuple[float, float]:
        upto, repeated = self._ground.rows(_TAKEN_IN, (self._ground.occurrences,))[0]
        return float(str(upto or 0)), float(str(repeated or 0))

    def deliver(self) -> list[Figure]:
        """One worker, then two: from the release of the lane to the last success in the ledger before the next hold."""
        one = self._deliver("deliver_per_s", "through the provider until done in the ledger, one worker", "deliver-1")
        self._ground.start(*workers(2, 2))
        self._ground.wait(lambda: self._ground.number(_SESSIONS) == 2, "the second worker")
        two = self._deliver("deliver_two_workers_per_s", "the same, two workers", "deliver-1", "deliver-2")
        self._ground.stop("deliver-1", "deliver-2")
        counts = self._ground.provider_counts()
        odd: list[object] = [(name, counts[name]) for name in _ODD if counts[name]]
        if odd := odd + list(self._ground.rows(_NOT_DONE)):
            raise BrokenPromise(f"not every attempt was one plain success, so there is no figure of that: {odd}")
        return [one, two]

    def _deliver(self, key: str, what: str, *names: str) -> Figure:
        ground, wanted = self._ground, self._sizes.deliveries
        before, cpu_s = ground.provider_counts()["accepted"], ground.cpu_s(*names)
        began_s = self._now_s()
        ground.rows(_named("release_lane"), {"region": REGION, "provider": PROVIDER})
        ground.wait(lambda: ground.provider_counts()["accepted"] - before >= wanted, "the deliveries")
        held_s, used_s = self._now_s(), ground.cpu_s(*names)
        self._hold()
        self._come_to_rest()
        count, last_s = ground.rows(_DONE, (began_s, held_s))[0]
        spent = Spent.between(cpu_s, used_s, int(str(count)))
        return rate(key, what, int(str(count)), float(str(last_s)) - began_s, spent)

    def _come_to_rest(self) -> None:
        """Slots that were reserved before the hold are still spent: until nothing is under way, and nothing begins."""
        seen: list[object] = []

        def at_rest() -> bool:
            under_way, attempts = self._ground.rows(_AT_REST)[0]
            seen.append(attempts)
            return under_way == 0 and seen[-3:] == [attempts] * 3

        self._ground.wait(at_rest, "the end of what was under way", 30, poll_s=0.3)

    def _now_s(self) -> float:
        return self._ground.number("SELECT extract(epoch FROM clock_timestamp())")

    def _make_held_lane(self) -> None:
        quota = {"rate_per_s": QUOTA_PER_S, "burst": QUOTA_BURST}
        self._ground.rows(_named("set_quota"), {"region": REGION, "provider": PROVIDER, **quota})
        self._hold()

    def _hold(self) -> None:
        terms = {"lane": self._ground.number("SELECT id FROM lane"), "reason": "a benchmark"}
        self._ground.rows(_named("hold_lane"), terms)


def _named(name: str) -> str:
    return statements("lanes")[name]
