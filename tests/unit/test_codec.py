"""Records on the wire: each schema's sample stays readable and is written the same; nothing else is taken for one."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import fastavro
import pytest

from streams.adapters import codec, records
from streams.domain.change import Change, ChangeKind
from streams.domain.errors import InvalidInput
from streams.domain.occurrence import Ended, Fire, Obligation, TickSource
from streams.domain.plan import Plan, Revision, RevisionState
from streams.domain.registry import Rejection
from streams.domain.schedule import (
    Cron,
    Daily,
    Delivery,
    Every,
    Gap,
    LatePolicy,
    MissingDay,
    Mode,
    MonthlyDays,
    MonthlyWeekday,
    MonthlyWorkday,
    Once,
    OnDelete,
    Overlap,
    Policy,
    Promise,
    Rule,
    Weekly,
    Yearly,
)
from streams.domain.tick import Tick
from streams.domain.tzdata import TzActivation, TzBundle
from tests.schedules import schedule

# To add a schema's sample: encode the value below and write its hex there. A sample that is there never changes: what
# was written once is in somebody's topic.
SAMPLES = Path(__file__).parent.parent / "data" / "samples.json"
SOURCE = TickSource(partition=4, offset=1201, watermark=88)
FULL = schedule(
    id="berlin-payroll",
    tenant="acme",
    account="A-17",
    rule=Weekly((0, 3), (150, 840)),
    policy=Policy(Gap.NEXT_VALID, Overlap.FIRST),
    starts_on=20819,
    ends_on=21183,
    except_dates=(20939,),
    paused=True,
    on_delete=OnDelete.DELIVER,
    mode=Mode.SHADOW,
    deliver=Delivery("acme-mail", "https://mail.example/17", '{"template":"payday"}'),
)
VALUES: dict[str, records.Value] = {
    "ScheduleChange": Change(
        "6b4a0f1e", ChangeKind.PUT, "berlin-payroll", '{"id":"berlin-payroll"}', 3, 29_979_360, "keep", "ops"
    ),
    "Plan": Plan(
        "berlin-payroll",
        2,
        7,
        (
            Revision(3, RevisionState.PAUSED, None, FULL),
            Revision(4, RevisionState.ACTIVE, 29_979_360, schedule(id="berlin-payroll", effective_from=29_979_360)),
        ),
    ),
    "Rejection": Rejection(
        "6b4a0f1e", "berlin-payroll",
        (("zone", '"Europe/Berlim"', "there is no such time zone", "did you mean Europe/Berlin?"),),
        "schedule-changes", 5, 977, b"\x00\xff", 1_800_000_000_123,
    ),
    "Tick": Tick(29_979_360, 4, "zdkJTYivREGOFC0KMVB04Q", 24, 88, 2, 1_800_000_000_123, None),
    "Fire": Fire(
        key="14483d975e5165b982df64cd1064a19b258083334fc46d64da962a86cb358048",
        schedule_id="berlin-payroll", incarnation=1, revision=3, promise=Promise.LABEL,
        policy=Policy(Gap.NEXT_VALID, Overlap.FIRST), nominal=30_096_630, copy=0, zone="Europe/Berlin",
        instant=30_096_540, due_s=1_805_792_400, deliver_by_s=None, late_policy=LatePolicy.ALL, ledger_day=20_900,
        tz_version="2026f", source=SOURCE, region="eu", tenant="acme", account=None, provider="acme-mail",
        to="https://mail.example/17", payload='{"template":"payday"}', mode=Mode.LIVE, on_delete=OnDelete.CANCEL,
        scenario=None,
    ),
    "Obligation": Obligation(
        key="ea08070245e7a49bb6f59d931baf114922454ccb99884a027aa919e1897e927e", schedule_id="acct-17", incarnation=1,
        revision=1, zone="America/New_York", instant=30_075_120, tz_version="2026f", region="us", tenant="acme",
        account="A-17", scenario="reconciliation", ledger_day=20_886, source=SOURCE, mode=Mode.LIVE,
        on_delete=OnDelete.CANCEL,
    ),
    "Ended": Ended("acct-17", 1, 4, "deleted", 30_075_120, SOURCE, "us", "acme", None),
    "TzBundle": TzBundle("2026f", "00" * 32, codec.pack_zones({"Etc/UTC": b"TZif2", "Asia/Tokyo": b"TZif"})),
    "TzActivation": TzActivation("2026f", 0, "townclock topics create"),
}  # fmt: skip


# Nothing reads these back yet, so they have no value of the domain; the sample is of the schema alone.
EVENT = {
    "key": "ea08070245e7a49bb6f59d931baf114922454ccb99884a027aa919e1897e927e",
    "schedule_id": "acct-17",
    "event": "delivered",
    "date": date(2027, 3, 14),
    "region": "us",
    "tenant": "acme",
    "provider": "acme-mail",
    "attempts": 2,
    "code": 200,
    "detail": None,
    "at": datetime(2027, 3, 14, 7, 0, 0, 123000, tzinfo=UTC),
    "scenario": None,
}


def avsc_files() -> list[Path]:
    return sorted(codec.schema_folder().glob("*.avsc"))


def samples() -> dict[str, str]:
    found: dict[str, str] = json.loads(SAMPLES.read_text())
    return found


def test_every_schema_has_a_value_and_a_sample() -> None:
    names = {json.loads(file.read_text())["name"] for file in avsc_files()}
    assert names == set(VALUES) | {"DeliveryEvent"} == set(samples())


def test_the_sample_of_a_delivery_event() -> None:
    parsed: Any = fastavro.parse_schema(json.loads((codec.schema_folder() / "delivery-event.avsc").read_text()))
    data = bytes.fromhex(samples()["DeliveryEvent"])
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, parsed, EVENT)
    assert data[10:] == buffer.getvalue()
    assert fastavro.schemaless_reader(io.BytesIO(data[10:]), parsed, None) == EVENT
    with pytest.raises(codec.Undecodable, match="a DeliveryEvent, which nothing here reads"):
        codec.decode(data)


@pytest.mark.parametrize("name", VALUES)
def test_the_sample_is_read_and_written_byte_for_byte(name: str) -> None:
    data = bytes.fromhex(samples()[name])
    assert codec.decode(data) == VALUES[name]
    assert codec.encode(VALUES[name]) == data


@pytest.mark.parametrize("name", VALUES)
def test_nothing_shorter_or_longer_is_taken_for_a_record(name: str) -> None:
    data = codec.encode(VALUES[name])
    for length in range(len(data)):
        with pytest.raises(codec.Undecodable):
            codec.decode(data[:length])
    with pytest.raises(codec.Undecodable, match="1 bytes too many"):
        codec.decode(data + b"\0")


@pytest.mark.parametrize("name", VALUES)
def test_another_fingerprint_is_refused(name: str) -> None:
    data = bytearray(codec.encode(VALUES[name]))
    for at in range(10):
        data[at] ^= 1
        with pytest.raises(codec.Undecodable, match="no schema here begins so"):
            codec.decode(bytes(data))
        data[at] ^= 1


@pytest.mark.parametrize("data", [None, b"", b"\xc3\x01", b"not avro at all", b"{}", bytes(4096)])
def test_garbage_is_refused_and_described(data: bytes | None) -> None:
    with pytest.raises(codec.Undecodable) as caught:
        codec.decode(data)
    assert str(caught.value)


@pytest.mark.parametrize("name", VALUES)
def test_a_flipped_bit_gives_a_value_or_an_error_of_ours(name: str) -> None:
    data = bytearray(codec.encode(VALUES[name]))
    for at in range(10, len(data)):
        for bit in (0, 7):
            data[at] ^= 1 << bit
            with contextlib.suppress(codec.Undecodable):
                codec.decode(bytes(data))
            data[at] ^= 1 << bit


@pytest.mark.parametrize("wrong", [
    Tick(2**63, 0, "x", 1, 0, 0, 0, None),
    TzActivation("\ud800", 0, "x"),
    Change("c", ChangeKind.DELETE, "a", None, None, None, "perhaps", "x"),
])  # fmt: skip
def test_what_no_schema_holds_is_not_written(wrong: records.Value) -> None:
    with pytest.raises(InvalidInput):
        codec.encode(wrong)


def test_a_plan_without_revisions_or_out_of_order_is_refused() -> None:
    plan = VALUES["Plan"]
    assert isinstance(plan, Plan)
    for revisions in ((), tuple(reversed(plan.revisions)), (plan.revisions[0],) * 2):
        with pytest.raises(codec.Undecodable, match="not ascending"):
            codec.decode(codec.encode(Plan("a", 1, 1, revisions)))


ELSEWHERE = [
    Weekly((6,), (540,), 2, 20_821),
    MonthlyDays((31, -1), MissingDay.CLAMP, (540,)),
    MonthlyWeekday(-1, 4, (540,)),
    MonthlyWorkday(-1, (540,)),
    Yearly(2, 29, MissingDay.NEXT, (540,)),
    Once(20_891, (540,)),
    Every(90, 29_979_360),
    Cron("*/15 9-17 * * mon-fri"),
]


@pytest.mark.parametrize("rule", ELSEWHERE, ids=str)
def test_a_plan_holds_every_kind_of_rule_and_a_count(rule: Rule) -> None:
    for count in (None, 12):
        one = schedule(rule=rule, starts_on=20_819, count=count)
        plan = Plan("a", 1, 1, (Revision(1, RevisionState.ACTIVE, None, one),))
        assert codec.decode(codec.encode(plan)) == plan


@pytest.mark.parametrize("fields", [{"count": 3}, {"count": 0, "starts_on": 20_819}])
def test_a_count_that_counts_nothing_is_refused(fields: dict[str, int]) -> None:
    plan = Plan("a", 1, 1, (Revision(1, RevisionState.ACTIVE, None, schedule(**fields)),))
    with pytest.raises(codec.Undecodable, match="a starts_on to count from"):
        codec.decode(codec.encode(plan))


def test_a_rule_of_a_later_release_is_refused() -> None:
    data = codec.encode(Plan("a", 1, 1, (Revision(1, RevisionState.ACTIVE, None, schedule(rule=Daily((0,)))),)))
    assert b'"daily"' in data
    with pytest.raises(codec.Undecodable, match="not a rule this version knows"):
        codec.decode(data.replace(b'"daily"', b'"lunar"'))


def test_zones_are_packed_the_same_in_any_order() -> None:
    zones = {"B/b": b"2", "A/a": b"1", "C/c": bytes(1000)}
    block = codec.pack_zones(zones)
    assert block == codec.pack_zones(dict(reversed(zones.items())))
    assert codec.unpack_zones(block) == zones
    with pytest.raises(codec.Undecodable):
        codec.unpack_zones(block[:-1])


@pytest.mark.parametrize("file", avsc_files(), ids=lambda file: file.name)
def test_every_field_of_every_schema_says_what_it_is(file: Path) -> None:
    undocumented = [name for name, doc in _documented(json.loads(file.read_text()), "") if len(doc) < 8]
    assert undocumented == []


def _documented(node: Any, where: str) -> Iterator[tuple[str, str]]:
    """(path, doc) of every record and field inside."""
    if isinstance(node, list):
        for branch in node:
            yield from _documented(branch, where)
    elif isinstance(node, dict) and node.get("type") == "record":
        yield f"{where}{node['name']}", node.get("doc", "")
        for item in node["fields"]:
            yield f"{where}{node['name']}.{item['name']}", item.get("doc", "")
            yield from _documented(item["type"], f"{where}{node['name']}.")
    elif isinstance(node, dict) and node.get("type") == "array":
        yield from _documented(node["items"], where)
    elif isinstance(node, dict) and isinstance(node.get("type"), dict):
        yield from _documented(node["type"], where)
