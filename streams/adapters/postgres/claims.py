"""Fair claims: a ring over the tenants with open rows, each claim going on from where the last one stopped.

The ring is kept for a second, with a mark per tenant below which nothing claimable was left: dead index entries at
the head of a tenant's line are so walked once a second at most. An empty claim is asked once more on a fresh ring.

A tenant is in the ring as soon as anything of it is open, though nothing of it may be due. So a claim visits those
that `due` has just seen something of; where there are more tenants than a ring holds, an empty one gives way to the
next.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from streams.adapters.clock import Clock, SystemClock
from streams.adapters.postgres.base import statements
from streams.adapters.postgres.link import Link, Row
from streams.domain.delivery import Standing, State
from streams.domain.occurrence import Fire, TickSource
from streams.domain.schedule import Gap, LatePolicy, Mode, OnDelete, Overlap, Policy, Promise
from streams.pipeline.ledger import Claimed, RowKey

Mark = tuple[datetime, bytes]

_KEPT_S = 1.0
_MOST_TENANTS = 500
_MOST_RINGS = 4  # looked at in one call
_FEW_TENANTS = 8
_START: Mark = (datetime(1900, 1, 1, tzinfo=UTC), b"")  # every due time is later


class Ring:
    """One lane's tenants, in order, from a place of its own."""

    def __init__(self, lane: int, link: Link, start: float, clock: Clock | None = None) -> None:
        """`start` in [0, 1) is where it begins, so that several workers don't begin together."""
        self._lane = lane
        self._link = link
        self._sql = statements("ledger_dispatch")
        self._clock = clock or SystemClock()
        self._start = start
        self._tenants: list[str] = []
        self._promising: list[str] = []
        self._marks: dict[str, Mark] = {}
        self._next = 0
        self._after = ""
        self._refreshed_s = float("-inf")

    async def due(self, now_s: float, most: int, *, fresh: bool) -> int:
        """How many rows could be claimed, up to `most`."""
        refreshed = fresh or self._is_old()
        if refreshed:
            await self._refresh()
        found = await self._due(now_s, most)
        for _ in range(_MOST_RINGS):
            whole = len(self._tenants) < _MOST_TENANTS
            if found or (refreshed and whole):
                break
            if not whole:
                self._after = self._tenants[-1]
            await self._refresh()
            refreshed = True
            found = await self._due(now_s, most)
        return found

    async def _due(self, now_s: float, most: int) -> int:
        if not self._tenants:
            return 0
        ahead = self._tenants[self._next :] + self._tenants[: self._next]
        terms = {"lane": self._lane, "now_s": float(now_s), "most": most, **self._marked(ahead)}
        rows = await self._link.rows(self._sql["due"], terms)
        count, tenants = rows[0]
        self._promising = tenants or []
        return int(count)

    def _marked(self, tenants: Sequence[str]) -> dict[str, Any]:
        marks = [self._marks.get(tenant, _START) for tenant in tenants]
        return {"tenants": list(tenants), "after_at": [at for at, _ in marks], "after_key": [key for _, key in marks]}

    async def claim(self, session: int, now_s: float, want: int) -> list[Row]:
        """Rows of the statement `claim`."""
        refreshed = self._is_old()
        if refreshed:
            await self._refresh()
        rows = await self._claim(session, now_s, want)
        if not rows and not refreshed:
            await self._refresh()
            rows = await self._claim(session, now_s, want)
        return rows

    def _is_old(self) -> bool:
        return self._clock.boot_s() - self._refreshed_s > _KEPT_S

    async def _refresh(self) -> None:
        """Read the tenants anew; go on with the one after the last visited."""
        rest = await self._read(self._after)
        self._tenants = rest if len(rest) == _MOST_TENANTS else [*rest, *await self._wrapped(rest)]
        if not self._after and self._tenants:
            self._next = int(self._start * len(self._tenants))
        else:
            self._next = 0
        self._marks.clear()
        self._promising = []
        self._refreshed_s = self._clock.boot_s()

    async def _wrapped(self, rest: Sequence[str]) -> list[str]:
        if not self._after:
            return []
        return [tenant for tenant in await self._read("") if tenant <= self._after][: _MOST_TENANTS - len(rest)]

    async def _read(self, after: str) -> list[str]:
        terms = {"lane": self._lane, "after": after, "most": _MOST_TENANTS}
        return [row[0] for row in await self._link.rows(self._sql["tenants"], terms)]

    async def _claim(self, session: int, now_s: float, want: int) -> list[Row]:
        ahead = self._promising or self._tenants[self._next :] + self._tenants[: self._next]
        chosen = ahead[:want]
        count = len(chosen)
        if not count:
            return []
        terms = {
            "lane": self._lane,
            "session": session,
            "now_s": float(now_s),
            "want": want,
            "per_tenant": want if count <= _FEW_TENANTS else -(-2 * want // count),
            **self._marked(chosen),
        }
        rows = await self._link.rows(self._sql["claim"], terms)
        self._promising = []
        self._after = chosen[-1]
        self._next = (self._tenants.index(self._after) + 1) % len(self._tenants)
        for row in rows:
            key, tenant, next_at = row[1], row[6], row[7]
            self._marks[tenant] = max(self._marks.get(tenant, _START), (next_at, key))
        return rows


def claimed_of(row: Sequence[Any], region: str, provider: str) -> Claimed:
    """A row of the statement `claim`, in the order of its columns; the lane's region and provider are not in it."""
    day, key, mode, fence, attempts, doubt_s, tenant = row[:7]
    (schedule_id, incarnation, revision, promise, gap, overlap, nominal, copy, zone, instant, due_s) = row[8:19]
    (deliver_by_s, late_policy, tz_version, tick_partition, tick_offset, tick_watermark) = row[19:25]
    account, to, payload, on_delete, scenario, body, ended, disabled = row[25:33]
    fire = Fire(
        key=key.hex(),
        schedule_id=schedule_id,
        incarnation=incarnation,
        revision=revision,
        promise=_PROMISES[promise],
        policy=_POLICIES[gap, overlap],
        nominal=nominal,
        copy=copy,
        zone=zone,
        instant=instant,
        due_s=due_s,
        deliver_by_s=deliver_by_s,
        late_policy=_LATE[late_policy],
        ledger_day=day.toordinal() - _EPOCH_ORDINAL,
        tz_version=tz_version,
        source=TickSource(tick_partition, tick_offset, tick_watermark),
        region=region,
        tenant=tenant,
        account=account,
        provider=provider,
        to=to,
        payload=payload,
        mode=Mode.SHADOW if mode else Mode.LIVE,
        on_delete=_ON_DELETE[on_delete],
        scenario=scenario,
    )
    standing = Standing(State.LEASED, fence, attempts, doubt_s)
    return Claimed(RowKey(day, key, mode), standing, fire, body, ended, disabled)


# Looked up rather than called: an enum's own call costs several times as much, and there are five a row.
_PROMISES = {each.value: each for each in Promise}
_POLICIES = {(gap.value, overlap.value): Policy(gap, overlap) for gap in Gap for overlap in Overlap}
_LATE = {each.value: each for each in LatePolicy}
_ON_DELETE = {each.value: each for each in OnDelete}
_EPOCH_ORDINAL = datetime(1970, 1, 1, tzinfo=UTC).toordinal()
