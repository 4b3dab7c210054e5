"""The as-of join of one partition: ticks and plans in, occurrence records out. A pure function of its inputs.

For a tick the caller hands over what changed (`asof.PlanBook`) and gets the records to emit, in an order that depends
on nothing else: by schedule id; of one id, `ended` before fires; fires by label, then copy.
"""

from __future__ import annotations

from streams.domain.asof import InForce, Transition
from streams.domain.bundle import ZoneBundle
from streams.domain.csr_index import CsrIndex
from streams.domain.errors import BrokenPromise, InvalidInput
from streams.domain.index import Due, Index
from streams.domain.keys import elapsed_key, label_key
from streams.domain.minutes import MINUTES_PER_DAY, format_tick
from streams.domain.occurrence import Ended, Fire, OccurrenceRecord, TickSource
from streams.domain.plan import RevisionState
from streams.domain.schedule import LatePolicy, Schedule

_TICK_S = 60


class Joiner:
    """What is in force in one partition, ready to be asked what is due. Ticks ascend one by one."""

    def __init__(self, bundle: ZoneBundle, scenario: str | None, index: Index | None = None) -> None:
        self._tz_version = bundle.version
        self._scenario = scenario
        self._index: Index = CsrIndex(bundle) if index is None else index
        self._numbers: dict[str, int] = {}
        self._active: dict[int, InForce] = {}
        self._next_number = 0

    def follow(self, tick: int, transitions: list[Transition]) -> None:
        """Take over what changed at a tick, emitting nothing: for ticks that were handled before.

        Raises BrokenPromise, naming the schedule, for one that this release can't evaluate.
        """
        for transition in transitions:
            after = transition.after
            if after is not None and after.revision.state is RevisionState.ACTIVE:
                self._put(tick, transition.schedule_id, after)
            else:
                self._remove(transition.schedule_id)

    def join(self, tick: int, transitions: list[Transition], source: TickSource) -> list[OccurrenceRecord]:
        """Take over what changed at a tick, and everything the tick makes happen, in order. Raises as `follow`."""
        self.follow(tick, transitions)
        records: list[OccurrenceRecord] = []
        for transition in transitions:
            if (ended := self._ended(tick, transition, source)) is not None:
                records.append(ended)
        due = self._index.due(tick)
        if not records:
            return [self._fire(tick, one, source) for one in due]
        records += [self._fire(tick, one, source) for one in due]
        records.sort(key=lambda record: record.schedule_id)  # stable: both parts are in order already
        return records

    def tidy(self) -> bool:
        """As `Index.tidy`: a few milliseconds of work on the index; whether there is more."""
        return self._index.tidy()

    def _put(self, tick: int, schedule_id: str, state: InForce) -> None:
        schedule = state.revision.schedule
        number = self._numbers.get(schedule_id)
        if number is None:
            number = self._numbers[schedule_id] = self._next_number
            self._next_number += 1
        _require_known(tick, schedule)
        try:
            self._index.put(number, schedule, state.since)
        except InvalidInput as error:
            raise BrokenPromise(f"at tick {format_tick(tick)}: schedule {schedule_id} in force: {error}") from None
        self._active[number] = state

    def _remove(self, schedule_id: str) -> None:
        number = self._numbers.pop(schedule_id, None)
        if number is not None:
            self._index.remove(number)
            del self._active[number]

    def _ended(self, tick: int, transition: Transition, source: TickSource) -> Ended | None:
        """`ended` for a schedule that was active at the tick before and is paused, deleted or re-created at this one.

        It names the revision in force at the tick; of a life that gave way to the next one, its own last revision.
        """
        before, after = transition.before, transition.after
        if before is None or before.revision.state is not RevisionState.ACTIVE:
            return None
        same_life = after is not None and after.incarnation == before.incarnation
        if after is not None and same_life and after.revision.state is RevisionState.ACTIVE:
            return None
        named = after if after is not None and same_life else before
        schedule = before.revision.schedule
        return Ended(
            schedule_id=transition.schedule_id,
            incarnation=before.incarnation,
            revision=named.revision.number,
            reason="paused" if named.revision.state is RevisionState.PAUSED else "deleted",
            instant=tick,
            source=source,
            region=schedule.region,
            tenant=schedule.tenant,
            scenario=self._scenario,
        )

    def _fire(self, tick: int, due: Due, source: TickSource) -> Fire:
        state = self._active[due.number]
        schedule = state.revision.schedule
        due_s = tick * _TICK_S
        deliver = schedule.deliver
        elapsed = due.label is None  # its date is the UTC date
        on = tick if due.label is None else due.label
        return Fire(
            key=elapsed_key(schedule.id, tick) if elapsed else label_key(schedule.id, on, due.copy),
            schedule_id=schedule.id,
            incarnation=state.incarnation,
            revision=state.revision.number,
            promise=schedule.promise,
            policy=schedule.policy,
            nominal=due.label,
            copy=due.copy,
            zone=schedule.zone,
            instant=tick,
            due_s=due_s,
            deliver_by_s=None if schedule.late_grace_s is None else due_s + schedule.late_grace_s,
            late_policy=schedule.late_policy,
            ledger_day=on // MINUTES_PER_DAY,
            tz_version=self._tz_version,
            source=source,
            region=schedule.region,
            tenant=schedule.tenant,
            account=schedule.account,
            provider=deliver.provider,
            to=deliver.to,
            payload=deliver.payload,
            mode=schedule.mode,
            on_delete=schedule.on_delete,
            scenario=self._scenario,
        )


def _require_known(tick: int, schedule: Schedule) -> None:
    """The registrar refuses what this release can't evaluate; a plan that asks for it all the same is not ignored."""
    unknown = None
    if schedule.spread_s:
        unknown = f"spread {schedule.spread_s} s"
    elif schedule.late_policy is not LatePolicy.ALL:
        unknown = f"late policy {schedule.late_policy}"
    if unknown is not None:
        raise BrokenPromise(
            f"at tick {format_tick(tick)}: schedule {schedule.id} has {unknown}, which this release does not evaluate"
        )
