"""Occurrence keys: sha256 of UTF-8 text, lower-case hex. The suffix of a second copy is inside the hash."""

from __future__ import annotations

from hashlib import sha256

from streams.domain.minutes import format_day, format_label


def label_key(schedule_id: str, label: int, copy: int = 0) -> str:
    """The key of a promised label. `copy` 1: the second fire under `both`. An edit or a tzdata change keeps the key."""
    suffix = f"#{copy + 1}" if copy else ""
    return nominal_key(schedule_id, f"{format_label(label)}{suffix}")


def nominal_key(schedule_id: str, nominal: str) -> str:
    """The key of a label's text; also of one that no calendar has, `2027-02-31T09:00`, which names a non-fire."""
    return sha256(f"{schedule_id}|{nominal}".encode()).hexdigest()


def business_date_key(schedule_id: str, day: int) -> str:
    """The key of an obligation, one per local business date."""
    return sha256(f"{schedule_id}|{format_day(day)}".encode()).hexdigest()


def elapsed_key(schedule_id: str, tick: int) -> str:
    """The key of an elapsed rule's occurrence, on its UTC minute."""
    return sha256(f"{schedule_id}|{format_label(tick)}Z".encode()).hexdigest()
