"""Schedules for tests: every field resolved, those that matter to a test given by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streams.domain.schedule import (
    Daily,
    Delivery,
    Gap,
    LatePolicy,
    Mode,
    OnDelete,
    Overlap,
    Policy,
    Promise,
    Schedule,
)

_PLAIN = Schedule(
    id="a",
    tenant="default",
    account=None,
    region="eu",
    zone="Europe/Berlin",
    rule=Daily((150,)),
    policy=Policy(Gap.SKIP, Overlap.FIRST),
    promise=Promise.LABEL,
    starts_on=None,
    ends_on=None,
    except_dates=(),
    late_policy=LatePolicy.ALL,
    late_grace_s=None,
    spread_s=0,
    mode=Mode.LIVE,
    paused=False,
    on_delete=OnDelete.CANCEL,
    effective_from=None,
    deliver=Delivery("mail", "someone", "{}"),
)


def schedule(**fields: Any) -> Schedule:
    """Daily at 02:30 in Berlin, but for `fields`."""
    return replace(_PLAIN, **fields)
