"""Where joiners begin to read: early enough, provably, and nowhere outside the log."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pytest

from streams.adapters.kafka.join_start import JoinStart
from streams.domain.tick import Tick
from streams.domain.tz_asof import TzBook
from streams.pipeline.cursors import Cursor
from streams.pipeline.join import WARM_UP_TICKS, PartitionJoin, Terms
from streams.pipeline.names import Names

MINUTE = 29_000_000
FIRST, END = 1_000, 9_000


class Inputs:
    """A log of one tick a minute, appended when it began: offset and minute differ by a constant."""

    def __init__(self) -> None:
        self.tz = TzBook()
        self.began: dict[int, int] = {}
        self.asked_ms: dict[int, int] = {}

    def tick_bounds(self, partitions: Collection[int]) -> dict[int, tuple[int, int]]:
        return dict.fromkeys(partitions, (FIRST, END))

    def tick_offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        self.asked_ms |= times_ms
        offsets = {p: max(FIRST, -(-at_ms // 60_000) - MINUTE) for p, at_ms in times_ms.items()}
        return {partition: offset if offset < END else None for partition, offset in offsets.items()}

    def begin(self, joins: Collection[PartitionJoin], first_tick_offsets: Mapping[int, int]) -> None:
        self.began |= {join.partition: first_tick_offsets[join.partition] for join in joins}

    def end(self, partition: int) -> None:
        self.began.pop(partition, None)


class Start(JoinStart):
    """Looks at ticks in the log above."""

    def _peek(self, offsets: Mapping[int, int]) -> dict[int, Tick]:
        return {p: Tick(MINUTE + offset, p, "id", 1, 0, 0, 0, None) for p, offset in offsets.items()}


def begin(cursor: Cursor | None, scenario: str | None = None) -> tuple[PartitionJoin, Inputs]:
    inputs: Any = Inputs()
    start = Start("nowhere:1", "test", Names("t-"), Terms(scenario, "id", 1, frozenset({"eu"})), inputs)
    join, end = start.begin({0: cursor}, frozenset())[0]
    assert end == END
    return join, inputs


def test_live_it_begins_before_every_tick_that_can_speak_of_the_warm_up() -> None:
    join, inputs = begin(Cursor(5_000, MINUTE + 4_999, 1, "x"))
    assert join.problem is None
    assert inputs.asked_ms == {0: (MINUTE + 5_000 - WARM_UP_TICKS) * 60_000 - 5_000}
    assert inputs.began == {0: 5_000 - WARM_UP_TICKS - 1}


def test_near_the_logs_first_tick_it_begins_there() -> None:
    assert begin(Cursor(FIRST + 10, MINUTE + FIRST + 9, 1, "x"))[1].began == {0: FIRST}


def test_a_scenario_is_read_from_its_beginning() -> None:
    _, inputs = begin(Cursor(5_000, 400, 1, "x"), "trial")
    assert inputs.began == {0: FIRST}
    assert inputs.asked_ms == {}


@pytest.mark.parametrize(("offset", "reset_minute"), [(5_000, MINUTE + 5_000), (END, None), (FIRST, None)])
def test_a_cursor_set_by_hand_is_warmed_up_for_too(offset: int, reset_minute: int | None) -> None:
    join, inputs = begin(Cursor(offset))
    assert join._reset_minute == reset_minute
    around = min(offset, END - 1)
    assert inputs.began == {0: FIRST if offset == FIRST else around - WARM_UP_TICKS - 1}


@pytest.mark.parametrize(
    ("cursor", "said"), [(None, "no cursor"), (Cursor(END + 1), "beyond the log's end 9000"), (Cursor(10), "deleted")]
)
def test_a_cursor_outside_the_log_stops_the_partition_and_says_how_to_set_one(cursor: Cursor | None, said: str) -> None:
    join, inputs = begin(cursor)
    assert said in str(join.problem)
    assert "--reset-offsets" in str(join.problem)
    assert inputs.began == {}
