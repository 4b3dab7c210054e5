"""The payload of a schedule document: any JSON value, kept as the one text of that value."""

from __future__ import annotations

import json
import math
from typing import Final

from streams.domain.document_fields import ABSENT, Fields, Path, type_name

MAX_PAYLOAD_BYTES: Final = 256 * 1024
MAX_PAYLOAD_DEPTH: Final = 64


def read_payload(deliver: Fields) -> str | None:
    """The payload as canonical JSON text: compact, keys sorted, every character but controls as it is."""
    value = deliver.raw.get("payload", ABSENT)
    if value is ABSENT:
        deliver.refuse("payload", ABSENT, "missing", "write any JSON value; {} where there is nothing to say")
        return None
    before = len(deliver.problems)
    _check_json(deliver, ("payload",), value, 1)
    if len(deliver.problems) > before:
        return None
    text = canonical_json(value)
    if (size_bytes := len(text.encode())) > MAX_PAYLOAD_BYTES:
        fix = f"keep it to {MAX_PAYLOAD_BYTES} bytes of JSON; send a reference to what is larger"
        deliver.refuse("payload", ABSENT, f"is {size_bytes} bytes long", fix)
        return None
    return text


def _check_json(deliver: Fields, path: Path, value: object, depth: int) -> None:
    """Note each part of a payload that JSON, or UTF-8, can't hold."""
    if depth > MAX_PAYLOAD_DEPTH:
        deliver.refuse("payload", ABSENT, "nested too deep", f"keep it to {MAX_PAYLOAD_DEPTH} levels")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str) or _has_surrogate(key):
                deliver.refuse(path, key, "a key must be text that UTF-8 can hold", "write it in quotes")
            else:
                _check_json(deliver, (*path, key), item, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(deliver, (*path, number), item, depth + 1)
    elif isinstance(value, str):
        if _has_surrogate(value):
            deliver.refuse(path, value, "half of a surrogate pair is no character", "write the whole character")
    elif isinstance(value, float) and not math.isfinite(value):
        deliver.refuse(path, str(value), "JSON has no such number", "write it as text, or leave it out")
    elif value is not None and not isinstance(value, bool | int | float):
        deliver.refuse(path, str(value), f"JSON can't hold {type_name(value)}", "write it as text")


def _has_surrogate(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def canonical_json(value: object) -> str:
    """The one text of a JSON value: compact, keys sorted, characters as they are."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
