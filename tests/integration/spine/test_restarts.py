"""Parts that stop and come back: what was due meanwhile is delivered once, and what was delivered is known."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from streams.adapters import codec
from streams.domain.minutes import format_tick, parse_tick
from streams.domain.tick import Tick
from tests.joining import read_topic
from tests.spine import PARTITIONS, REGIONS, Spine, both, pair, promised

_DUPLICATES = "SELECT coalesce(sum(duplicates), 0)::bigint FROM source_offset WHERE topic = %s"


def test_a_processor_starts_again_with_minutes_to_replay(spine: Spine) -> None:
    """While it is away ticks go on, and an edit is made, which counts from its own minute."""
    day = "2027-04-19"
    ids = both("replayed")
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("replayed", day, range(5, 60, 5)))
    spine.tick(8)
    spine.joined()
    last = spine.now
    assert last is not None
    spine.stop("processor-1")
    spine.tick(10)
    spine.apply(*pair("replayed", day, range(6, 60, 6)))
    spine.tick(42)
    assert set(spine.watch.joined_minutes()) == {last - 1}
    spine.again("processor-1")
    spine.settled(*ids)
    minutes = [5, 10, 15, *range(18, 60, 6)]
    assert spine.effects(*ids) == promised("replayed", day, minutes)


def ticks(spine: Spine, start: int) -> list[list[Tick]]:
    """By partition, from a minute on."""
    found: list[list[Tick]] = [[] for _ in range(PARTITIONS)]
    for message in read_topic(spine.servers, spine.names.ticks, range(PARTITIONS)):
        tick = codec.decode(message.value())
        assert isinstance(tick, Tick)
        if tick.minute >= start:
            found[message.partition() or 0].append(tick)
    return found


def test_overdue_minutes_are_swept_after_the_ticker_stopped(spine: Spine) -> None:
    """SIGKILL in the middle of its work; the next one appends what is missing, and nothing is due twice or never."""
    start, end = "2027-04-20T00:00Z", "2027-04-24T00:00Z"
    days = [f"2027-04-{number}" for number in range(20, 24)]
    spine.go_to(start)
    spine.apply(*pair("swept", days[0], [0, 30], ends_on=days[-1]))
    before = sum(spine.ends(spine.names.ticks).values())
    spine.begin("ticker", "--from", start, "--to", end)
    spine.wait(lambda: sum(spine.ends(spine.names.ticks).values()) > before, 60, "no tick was published")
    spine.kill("ticker")
    assert spine.child("ticker").exit_status == 137, "it was too fast to be killed"
    spine.forget("ticker")
    first = parse_tick(start)
    # a partition may have got none yet
    reached = [found[-1].minute for found in ticks(spine, first) if found]
    assert max(reached) < parse_tick(end) - 1
    spine.tick(parse_tick(end) - first)
    for found in ticks(spine, first):
        minutes = [tick.minute for tick in found]
        assert minutes == list(range(first, parse_tick(end))), format_tick(minutes[0])
    spine.settled(*both("swept"))
    wanted = sorted(effect for day in days for effect in promised("swept", day, [0, 30]))
    assert spine.effects(*both("swept")) == wanted


def test_a_delivery_groups_offsets_reset_to_the_earliest_send_nothing_twice(spine: Spine) -> None:
    day, minutes = "2027-04-26", range(60)
    ids = both("reset")
    spine.go_to(f"{day}T14:00Z")
    spine.apply(*pair("reset", day, minutes))
    spine.tick(60)
    spine.settled(*ids)
    accepted = spine.sandbox.stats()["mail"]
    known = {region: spine.one(_DUPLICATES, spine.names.occurrences(region)) for region in REGIONS}
    spine.stop(*spine.workers())
    for region in REGIONS:
        reset(spine, region)
    spine.again(*spine.workers())
    for region in REGIONS:
        topic = spine.names.occurrences(region)
        messages = read_topic(spine.servers, topic, range(PARTITIONS))
        again = sum(dict(message.headers() or ())["ce_type"] == b"townclock.occurrence.fire" for message in messages)
        assert again >= len(minutes)
        spine.until(known[region] + again, _DUPLICATES, topic)
    assert spine.effects(*ids) == promised("reset", day, minutes)
    assert {(row.state, row.attempts) for one in ids for row in spine.rows(one)} == {("done", 1)}
    spine.apply(*pair("after-reset", "2027-04-27", [1]))
    spine.go_to("2027-04-27T14:00Z")
    spine.tick(2)
    spine.settled(*both("after-reset"))
    assert spine.effects(*both("after-reset")) == promised("after-reset", "2027-04-27", [1])
    stats = spine.sandbox.stats()["mail"]
    assert stats["accepted"] == accepted["accepted"] + 2
    assert stats["replayed"] == accepted["replayed"]


def reset(spine: Spine, region: str) -> None:
    """As kafka-consumer-groups --reset-offsets --to-earliest does."""
    topic, group = spine.names.occurrences(region), spine.names.deliver_group(region)
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    (future,) = spine.admin.alter_consumer_group_offsets([asked]).values()
    assert all(item.error is None for item in future.result(30).topic_partitions)
