"""What tests need to use real services: unique names and waiting for a condition."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def unique_name(prefix: str) -> str:
    """A name no other test uses: lower-case letters and digits, good for topics, schemas and groups."""
    return f"{prefix}{secrets.token_hex(5)}"


def wait_for(
    condition: Callable[[], T], timeout_s: float = 30.0, message: str | Callable[[], str] = "", *, poll_s: float = 0.02
) -> T:
    """The first true value of `condition`, asked again until then.

    Fails the test after `timeout_s` with `message`, which may be a callable that says how things stand then.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            text = message() if callable(message) else message
            raise AssertionError(f"not so within {timeout_s:g} s: {text or condition}")
        time.sleep(poll_s)
