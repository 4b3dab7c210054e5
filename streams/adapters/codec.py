"""Domain values as Avro, and back: single-object encoding (two marker bytes, the schema's CRC-64-AVRO, the body).

`encode` is deterministic: equal values give equal bytes. `decode` reads any schema of `schemas/` by its fingerprint and
raises Undecodable for everything else, saying what was found.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import fastavro
from fastavro.schema import fingerprint, to_parsing_canonical_form

from streams.adapters import records
from streams.domain.errors import InvalidInput

_MARKER: Final = b"\xc3\x01"
_MAX_SHOWN_BYTES: Final = 16


class Undecodable(InvalidInput):
    """Bytes that are no record of ours. The record is kept whole by whoever meets it; nothing is skipped in silence."""


def schema_folder() -> Path:
    """`schemas/` of the checkout, or the copy inside an installed wheel."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "schemas"
    return checkout if (checkout / "tick.avsc").is_file() else package / "_schemas"


class _Schema:
    def __init__(self, file: Path) -> None:
        raw = json.loads(file.read_text(encoding="utf-8"))
        self.name: str = raw["name"]
        self.parsed: Any = fastavro.parse_schema(raw, named_schemas={})
        # The fingerprint's hex is the integer's big-endian form; single-object encoding wants little-endian bytes.
        digest = fingerprint(to_parsing_canonical_form(raw), "CRC-64-AVRO")
        self.header = _MARKER + bytes.fromhex(digest)


@cache
def _schemas() -> dict[str, _Schema]:
    schemas = [_Schema(file) for file in sorted(schema_folder().glob("*.avsc"))]
    return {schema.name: schema for schema in schemas}


@cache
def _by_header() -> dict[bytes, _Schema]:
    return {schema.header: schema for schema in _schemas().values()}


def encode(value: records.Value) -> bytes:
    """The record's bytes. Raises InvalidInput if a field does not fit its schema."""
    name, to_avro = records.writer_of(value)
    schema = _schemas()[name]
    buffer = io.BytesIO()
    buffer.write(schema.header)
    try:
        fastavro.schemaless_writer(buffer, schema.parsed, to_avro(value))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidInput(f"{name}: a field does not fit its schema: {error}") from error
    return buffer.getvalue()


def decode(data: bytes | None) -> records.Value:
    """The value that `encode` took. Raises Undecodable, saying what was found instead."""
    if data is None:
        raise Undecodable("a null value; a record was expected")
    schema = _by_header().get(data[:10])
    if schema is None:
        shown = data[:_MAX_SHOWN_BYTES].hex()
        raise Undecodable(f"{len(data)} bytes that begin {shown or 'with nothing'}: no schema here begins so")
    from_avro: Callable[[Any], records.Value] | None = records.READERS.get(schema.name)
    if from_avro is None:
        raise Undecodable(f"a {schema.name}, which nothing here reads")
    buffer = io.BytesIO(data)
    buffer.seek(10)
    try:
        value = from_avro(fastavro.schemaless_reader(buffer, schema.parsed, None))
    except Exception as error:
        raise Undecodable(f"a {schema.name} of {len(data)} bytes that can't be read: {error}") from error
    if buffer.read(1):
        raise Undecodable(f"a {schema.name} with {len(data) - buffer.tell() + 1} bytes too many")
    return value


def pack_zones(zones: dict[str, bytes]) -> bytes:
    """Zone files as one compressed block, in name order: the `zones` field of a tz bundle."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, _ZONES, dict(sorted(zones.items())))
    return zlib.compress(buffer.getvalue(), 9)


def unpack_zones(block: bytes) -> dict[str, bytes]:
    """The inverse of `pack_zones`. Raises Undecodable."""
    try:
        zones: Any = fastavro.schemaless_reader(io.BytesIO(zlib.decompress(block)), _ZONES, None)
    except Exception as error:
        raise Undecodable(f"a zone block that can't be read: {error}") from error
    return dict(zones)


_ZONES: Any = fastavro.parse_schema({"type": "map", "values": "bytes"})
