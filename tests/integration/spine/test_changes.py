"""Schedules that change while the pipeline runs, and schedules that can't be."""

from __future__ import annotations

from typing import Any

from streams.adapters import codec
from streams.domain.change import Change, ChangeKind
from streams.domain.registry import Rejection
from tests.joining import read_topic
from tests.spine import PARTITIONS, REGIONS, Spine, both, pair, promised


def paper(prefix: str, day: str, minutes: list[int], text: str = "first", **more: Any) -> list[Any]:
    """A pair for the lane that the test holds."""
    documents = pair(prefix, day, minutes, **more)
    for one in documents:
        one["deliver"] = {"provider": "paper", "to": prefix, "payload": {"text": text}}
    return documents


def test_delete_and_pause_cancel_what_is_unsent_and_an_edit_counts_from_its_minute(spine: Spine) -> None:
    """The lane is held from before the first minute, so that nothing can have been sent when the changes come."""
    day = "2027-04-05"
    kinds = ("kept", "deleted", "let-go", "paused", "edited")
    ids = [schedule_id for kind in kinds for schedule_id in both(kind)]
    spine.sql.execute("UPDATE lane SET held = 'a test', held_since = now() WHERE provider = 'paper'")
    spine.go_to(f"{day}T14:00Z")
    documents = [one for kind in kinds if kind != "let-go" for one in paper(kind, day, [5, 10, 20, 40])]
    spine.apply(*documents, *paper("let-go", day, [5, 10, 20, 40], on_delete="deliver"))
    spine.tick(12)
    spine.taken_in()
    assert all([row.state for row in spine.rows(schedule_id)] == ["pending"] * 2 for schedule_id in ids)

    spine.run("schedules", "delete", "--yes", "--wait", *both("deleted"), *both("let-go"))
    spine.run("schedules", "pause", "--yes", "--wait", *both("paused"))
    spine.apply(*paper("edited", day, [5, 15, 30], "second"))
    spine.tick(13)
    spine.run("schedules", "resume", "--yes", "--wait", *both("paused"))
    spine.tick(20)
    spine.taken_in()

    def states(kind: str) -> list[list[tuple[str, str, int]]]:
        return [[(row.nominal[-2:], row.state, row.revision) for row in spine.rows(one)] for one in both(kind)]

    cancelled = [("05", "cancelled", 1), ("10", "cancelled", 1)]
    pending = [("05", "pending", 1), ("10", "pending", 1)]
    assert states("deleted") == [cancelled] * 2
    assert states("let-go") == [pending] * 2
    assert states("paused") == [[*cancelled, ("40", "pending", 3)]] * 2
    assert states("edited") == [[*pending, ("15", "pending", 2), ("30", "pending", 2)]] * 2
    assert states("kept") == [[*pending, ("20", "pending", 1), ("40", "pending", 1)]] * 2
    assert spine.bodies(*ids) == []

    for region in REGIONS:
        spine.run("db", "release", region, "paper")
    spine.settled(*ids)
    wanted = {"kept": [5, 10, 20, 40], "deleted": [], "let-go": [5, 10], "paused": [40], "edited": [5, 10, 15, 30]}
    for kind, minutes in wanted.items():
        assert spine.effects(*both(kind)) == promised(kind, day, minutes)
    texts = {body["nominal"][-2:]: body["payload"]["text"] for body in spine.bodies(*both("edited"))}
    assert texts == {"05": "first", "10": "first", "15": "second", "30": "second"}
    assert {row.attempts for one in both("deleted") for row in spine.rows(one)} == {0}


def rejected(spine: Spine) -> list[Rejection]:
    """What the registrar has refused, in the order in which it was asked for."""
    records = [
        codec.decode(message.value()) for message in read_topic(spine.servers, spine.names.rejected, range(PARTITIONS))
    ]
    found = [record for record in records if isinstance(record, Rejection)]
    assert len(found) == len(records)
    return sorted(found, key=lambda one: (one.partition, one.offset))


def test_an_invalid_zone_is_refused_by_the_command_and_by_the_registrar(spine: Spine) -> None:
    day = "2027-04-06"
    ends = spine.ends(spine.names.schedule_changes)
    valid, wrong = pair("zone", day, [5])[0], pair("zone-typed", day, [5], zone="Europe/Berln")[0]
    done = spine.ask("schedules", "apply", "--wait", file := spine.file(valid, wrong))
    assert done.returncode == 2
    assert done.stderr.startswith(f"{file}:")
    assert 'zone: there is no such time zone ("Europe/Berln"); did you mean Europe/Berlin?' in done.stderr
    assert spine.ends(spine.names.schedule_changes) == ends

    spine.go_to(f"{day}T14:00Z")
    raw = '{"id":"%s","region":"us","zone":"America/New_Yrok","rule":{"kind":"daily","at":["10:05"]},'
    raw += '"deliver":{"provider":"mail","to":"nobody","payload":{}}}'
    ids = [f"zone-raw-{number}" for number in range(8)]  # some on every partition
    for schedule_id in ids:
        change = Change(f"c-{schedule_id}", ChangeKind.PUT, schedule_id, raw % schedule_id, None, None, None, "foreign")
        spine.producer.produce(spine.names.schedule_changes, codec.encode(change), schedule_id.encode())
        spine.producer.produce(spine.names.schedule_changes, b"\x00no record", schedule_id.encode())
    assert spine.producer.flush(30) == 0
    spine.apply(*pair("zone", day, [5, 6, 7]))
    spine.tick(10)
    spine.settled(*both("zone"))
    assert spine.effects(*both("zone")) == promised("zone", day, [5, 6, 7])

    count = 2 * len(ids)
    spine.wait(lambda: len(rejected(spine)) == count, 30, lambda: f"{len(rejected(spine))} of {count} are rejected")
    for schedule_id in ids:
        of_zone, of_garbage = (one for one in rejected(spine) if one.schedule_id == schedule_id)
        ((field, value, problem, fix),) = of_zone.problems
        assert (field, value) == ("zone", '"America/New_Yrok"')
        assert "no such time zone" in problem
        assert "America/New_York" in fix
        assert of_zone.change_id == f"c-{schedule_id}"
        assert of_garbage.record == b"\x00no record"
        assert of_garbage.change_id is None
    assert spine.one("SELECT count(*) FROM schedule WHERE id = ANY(%s)", ids) == 0
