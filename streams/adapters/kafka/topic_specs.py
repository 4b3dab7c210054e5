"""What every topic promises: the table of contracts.md, as settings that can be created and compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from streams.pipeline.names import Names

DEFAULT_PARTITIONS: Final = 24
DAY_MS: Final = 86_400_000
HORIZON_MS: Final = 30 * DAY_MS
TICKS_SEGMENT_MS: Final = DAY_MS
LARGEST: Final = 2**63 - 1
CHANGE_BYTES: Final = 1 << 20
# A rejection holds the refused record whole, and its reasons.
REJECTION_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """One setting: `value` is what `create` writes; `at_least` says that more than it keeps the promise too.

    For a time, -1 (for ever) is more than any number.
    """

    value: str
    at_least: bool = False

    def allows(self, found: str | None) -> bool:
        """Whether a topic with this value keeps the promise."""
        if found == self.value:
            return True
        if not self.at_least or found is None:
            return False
        return amount(found) >= amount(self.value)

    def __str__(self) -> str:
        return f"at least {self.value}" if self.at_least else self.value


def amount(text: str) -> int:
    """A time or size of a topic's configuration as a number; -1 means without limit."""
    return LARGEST if text == "-1" else int(text)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """One topic. `partitions` none: any number. `like_schedules`: the same number as `schedules`."""

    topic: str
    settings: Mapping[str, Wanted]
    like_schedules: bool = False
    partitions: int | None = None


def topic_specs(names: Names, regions: Iterable[str], replay_horizon_ms: int, segment_ms: int) -> list[TopicSpec]:
    """Every topic of an installation. The horizon is how long `ticks` are kept: what others keep depends on it."""
    horizon = max(replay_horizon_ms, HORIZON_MS)
    lag = min(horizon + segment_ms, LARGEST)
    specs = [
        TopicSpec(names.schedule_changes, {**_log(HORIZON_MS, append_time=True), **_size(CHANGE_BYTES)}),
        TopicSpec(names.rejected, {**_log(HORIZON_MS), **_size(REJECTION_BYTES)}),
        TopicSpec(
            names.schedules,
            {**_compact(), "min.compaction.lag.ms": Wanted(str(lag), at_least=True)},
            like_schedules=True,
        ),
        TopicSpec(names.tzdata, _compact(), partitions=1),
        TopicSpec(names.deliveries, _log(HORIZON_MS)),
        TopicSpec(names.digests, _log(HORIZON_MS)),
    ]
    specs += [
        TopicSpec(names.occurrences(region), _log(horizon), like_schedules=True) for region in sorted(set(regions))
    ]
    # `ticks` last: its first cursor follows at once, and nothing can tick before the rest is there.
    # Faust reads only what tickers wrote as they wrote it: its client lacks some of the codecs a broker may choose.
    ticks = {
        **_log(HORIZON_MS, append_time=True),
        "segment.ms": Wanted(str(segment_ms)),
        "compression.type": Wanted("producer"),
    }
    specs.append(TopicSpec(names.ticks, ticks, like_schedules=True))
    return specs


def _log(retention_ms: int, *, append_time: bool = False) -> dict[str, Wanted]:
    settings = {
        "cleanup.policy": Wanted("delete"),
        "retention.ms": Wanted("-1" if retention_ms >= LARGEST else str(retention_ms), at_least=True),
        # A limit of size would cut the time short.
        "retention.bytes": Wanted("-1"),
        **_clean_elections(),
    }
    return {**settings, **_append_time()} if append_time else settings


def _compact() -> dict[str, Wanted]:
    return {"cleanup.policy": Wanted("compact"), **_append_time(), **_clean_elections()}


def _append_time() -> dict[str, Wanted]:
    return {"message.timestamp.type": Wanted("LogAppendTime")}


def _clean_elections() -> dict[str, Wanted]:
    return {"unclean.leader.election.enable": Wanted("false")}


def _size(size_bytes: int) -> dict[str, Wanted]:
    return {"max.message.bytes": Wanted(str(size_bytes), at_least=True)}


def in_sync_replicas(replication: int) -> int:
    """How many replicas must have a record before it is acknowledged: with three, one can be away and none is lost."""
    return max(1, replication - 1)
