"""From a minute's edge to the provider, on a live installation that has nothing else to do.

The edge is the minute that the schedule names; accepted is the provider's own time stamp. Both are of this machine's
clock. Beside it, when each step on the way was: the tick's append, the row in the ledger, the start of the attempt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, percentile
from benchmarks.ground import Ground, workers
from benchmarks.load import put
from benchmarks.sizes import Sizes
from streams.adapters.codec import decode
from streams.domain.errors import BrokenPromise
from streams.domain.minutes import parse_tick
from streams.domain.tick import Tick
from streams.entrypoints.supervise import Spec

QUOTA_PER_S, QUOTA_BURST = 1000.0, 100
_LEAD_S = 15.0  # a change counts from the first minute that begins 5 s after it lies on `schedules`
_COUNTS_AFTER_S = 6.0
_LATE_S = 30.0
_STEPS = (
    "SELECT extract(epoch FROM o.recorded_at - o.instant), extract(epoch FROM a.started_at - o.instant)"
    " FROM occurrence o JOIN attempt a USING (date, key, mode) WHERE a.n = 1"
)


def measure(ground: Ground, sizes: Sizes) -> list[Figure]:
    """Start every process, put schedules on the next minutes, and read what the provider wrote."""
    ground.start(Spec("registrar", ("registrar",)), Spec("relay", ("relay",)), Spec("processor-1", ("processor",)))
    ground.start(*workers(1, 1), Spec("ticker", ("ticker",)))
    ground.wait(lambda: ground.joined_now() >= ground.clock.now_s() // 60 - 1, "the live joiners")
    first = _put_schedules(ground, sizes)
    total, last = sizes.edge_minutes * sizes.edge_schedules, first + sizes.edge_minutes - 1
    timeout_s = last * 60 + _LATE_S - ground.clock.now_s()
    ground.wait(lambda: ground.provider_counts()["accepted"] >= total, "every delivery", timeout_s)
    ground.wait(lambda: ground.number("SELECT count(*) FROM queue") == 0, "every outcome", _LATE_S)
    waits = accepted_after_s(ground.sandbox_log)
    if len(waits) != total:
        raise BrokenPromise(f"the provider accepted {len(waits)} of {total} deliveries once")
    recorded, started = zip(*((float(str(a)), float(str(b))) for a, b in ground.rows(_STEPS)), strict=True)
    ticks = _ticks_after_s(ground, range(first, last + 1))
    ground.family.stop()
    over = {"deliveries": total, "minutes": sizes.edge_minutes, "partitions": sizes.partitions}
    steps = (
        ("edge_to_tick_p50_s", "minute's edge → tick on the log", ticks),
        ("edge_to_ledger_p50_s", "minute's edge → in the ledger", recorded),
        ("edge_to_sending_p50_s", "minute's edge → attempt begun", started),
    )
    return [
        Figure("edge_to_accepted_p50_s", percentile(waits, 50), "s", "minute's edge → accepted by the provider", over),
        Figure("edge_to_accepted_p99_s", percentile(waits, 99), "s", "the same, 99th percentile", over),
        *(Figure(key, percentile(found, 50), "s", what, {"values": len(found)}) for key, what, found in steps),
    ]


def _put_schedules(ground: Ground, sizes: Sizes) -> int:
    """Schedules for the minutes to come, on `schedules` in time to count; the first of these minutes."""
    first = int((ground.clock.now_s() + _LEAD_S) // 60) + 1
    count = sizes.edge_minutes * sizes.edge_schedules
    ground.publish(put(f"edge-{n:04d}", n, "Etc/UTC", [first + n // sizes.edge_schedules]) for n in range(count))
    ground.wait(lambda: ground.count(ground.names.schedules) == count, "every schedule", 60)
    if ground.last_time_s(ground.names.schedules) > first * 60 - _COUNTS_AFTER_S:
        raise BrokenPromise("the schedules did not come to lie on their topic in time to count; try again")
    return first


def accepted_after_s(log: Path) -> list[float]:
    """How long after its instant each key was accepted, by the log. Raises BrokenPromise if one was twice."""
    found: dict[str, float] = {}
    for text in log.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["event"] != "accepted":
            continue
        if line["idempotency_key"] in found:
            raise BrokenPromise(f"{line['idempotency_key']} was accepted twice")
        found[line["idempotency_key"]] = line["at"] - parse_tick(line["body"]["instant"]) * 60
    return list(found.values())


def _ticks_after_s(ground: Ground, minutes: Sequence[int]) -> list[float]:
    """How long after its minute's edge each tick was appended."""
    waits = []
    for partition, end in ground.ends(ground.names.ticks).items():
        for message in ground.read(ground.names.ticks, partition, 0, end):
            tick = decode(message.value())
            if isinstance(tick, Tick) and tick.minute in minutes:
                waits.append(message.timestamp()[1] / 1000 - tick.minute * 60)
    return waits
