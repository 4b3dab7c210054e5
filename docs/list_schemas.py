"""Writes the tables of schemas.md from schemas/*.avsc and the topics' settings: `python docs/list_schemas.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from blocks import main, table
from fastavro.schema import fingerprint, to_parsing_canonical_form

from streams.adapters.codec import schema_folder
from streams.adapters.kafka.topic_specs import DAY_MS, HORIZON_MS, TICKS_SEGMENT_MS, topic_specs
from streams.pipeline.names import Names

_REGION = "REGION"
_NAMES = Names()
_RESERVED = ("Obligation", "DeliveryEvent")  # nothing in this release writes them
# topic -> (Kafka key, what places a record, who writes it, schemas of its values)
_TOPICS: dict[str, tuple[str, str, str, tuple[str, ...]]] = {
    _NAMES.schedule_changes: ("schedule id", "murmur2 of the key", "anyone", ("schedule-change",)),
    _NAMES.rejected: ("schedule id, or the key it came with", "murmur2 of the key", "registrar", ("rejection",)),
    _NAMES.schedules: ("schedule id", "murmur2 of the key", "relay, for the registrar", ("plan",)),
    _NAMES.tzdata: (
        "`bundle:VERSION`, `activation:VERSION:MINUTE`",
        "its only partition",
        "`townclock topics create`",
        ("tz-bundle", "tz-activation"),
    ),
    _NAMES.ticks: ("none", "every partition gets every minute", "ticker", ("tick",)),
    _NAMES.occurrences(_REGION): (
        "schedule id",
        "the partition of its tick",
        "processor",
        ("occurrence-fire", "occurrence-ended", "occurrence-obligation"),
    ),
    _NAMES.deliveries: ("occurrence key", "murmur2 of the key", "relay", ("delivery-event",)),
    _NAMES.digests: ("digest id", "murmur2 of the key", "nobody yet", ()),
}


def topics_table() -> str:
    """Each topic with its key, placement, writer and records."""
    rows = []
    for topic, (key, placed, writer, files) in _TOPICS.items():
        schemas = [_schema(file) for file in files]
        written = [schema for schema in schemas if schema["name"] not in _RESERVED]
        names = ", ".join(f"[{schema['name']}](#{schema['name'].lower()})" for schema in schemas)
        rows.append([f"`{topic}`", key, placed, writer if written else "nobody yet", names or "none yet"])
    return table(["topic", "key", "partition", "written by", "value"], rows)


def settings_table() -> str:
    """Each topic with the settings that are created and checked."""
    rows = []
    for spec in topic_specs(_NAMES, [_REGION], HORIZON_MS, TICKS_SEGMENT_MS):
        settings = spec.settings
        kept = [settings[name] for name in ("retention.ms", "min.compaction.lag.ms") if name in settings]
        time = settings["message.timestamp.type"].value if "message.timestamp.type" in settings else "any"
        count = "as `schedules`" if spec.like_schedules else str(spec.partitions or "any")
        days = f"at least {int(kept[0].value) // DAY_MS} days" if kept else ""
        rows.append([f"`{spec.topic}`", settings["cleanup.policy"].value, days, time, count])
    return table(["topic", "cleanup", "kept", "timestamps", "partitions"], sorted(rows))


def records_text() -> str:
    """Each schema: what it is, the ten bytes its records begin with, and its fields."""
    files = [file for _, _, _, files in _TOPICS.values() for file in files]
    return "\n\n".join(_record_text(file) for file in files)


def _record_text(file: str) -> str:
    schema = _schema(file)
    note = " Reserved: nothing in this release writes it." if schema["name"] in _RESERVED else ""
    intro = f"[{file}.avsc](../schemas/{file}.avsc). Its records begin with `{header_of(schema).hex(' ')}`."
    inner: dict[str, dict[str, Any]] = {}
    parts = [f"### {schema['name']}", f"{_plain(schema['doc'])}{note}", intro, _fields(schema, inner)]
    while inner:
        name = next(iter(inner))
        record = inner.pop(name)
        parts += [f"`{name}`: {_plain(record['doc'])}", _fields(record, inner)]
    return "\n\n".join(parts)


def _fields(record: dict[str, Any], inner: dict[str, dict[str, Any]]) -> str:
    rows = []
    for field in record["fields"]:
        default = json.dumps(field["default"]) if "default" in field else ""
        rows.append([f"`{field['name']}`", _type(field["type"], inner), default, _plain(field["doc"])])
    return table(["field", "type", "default", "meaning"], rows)


def _plain(text: str) -> str:
    """Text in which Markdown sees no tags."""
    return text.replace("<", "&lt;")


def _type(type_: Any, inner: dict[str, dict[str, Any]]) -> str:
    """A type as people write it; records found inside are put into `inner`."""
    if isinstance(type_, str):
        return type_
    if isinstance(type_, list):
        return " or ".join(_type(each, inner) for each in type_)
    match type_["type"]:
        case "record":
            inner[type_["name"]] = type_
            return f"`{type_['name']}`"
        case "enum":
            return "enum: " + ", ".join(type_["symbols"])
        case "array":
            return f"array of {_type(type_['items'], inner)}"
        case plain:
            return f"{plain} ({type_['logicalType']})" if "logicalType" in type_ else plain


def header_of(schema: dict[str, Any]) -> bytes:
    """The marker of single-object encoding and the schema's CRC-64-AVRO fingerprint, little-endian."""
    return b"\xc3\x01" + bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))


def _schema(file: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads((schema_folder() / f"{file}.avsc").read_text(encoding="utf-8"))
    return schema


def blocks() -> dict[str, str]:
    """What this program writes, by name."""
    return {"topics": topics_table(), "settings": settings_table(), "records": records_text()}


if __name__ == "__main__":
    sys.exit(main(Path(__file__).with_name("schemas.md"), blocks))
