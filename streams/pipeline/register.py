"""The registrar's step: a batch of records of `schedule-changes` and of `schedules` into the registry.

For one batch, in this order, in one transaction of the registry:

1. lock the source offsets of the batch's partitions, and drop records that are below them (taken in already);
2. lock and read the plans of every id that the batch speaks of, in the order of ids;
3. decide each change, in the order of the log, each on what the one before it left;
4. note which plans came to lie on `schedules`; where an older one landed after a newer, publish the newest again;
5. write plans, revisions, answers and outbox records; advance the source offsets.

So a change makes exactly one revision, however often it is read, and whoever reads it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from streams.domain.change import Change
from streams.domain.document import MAX_ID_CHARS, DocumentContext
from streams.domain.document_fields import ABSENT, type_name
from streams.domain.errors import BrokenPromise, InvalidInput, Problem
from streams.domain.plan import Plan
from streams.domain.registration import (
    MAX_CHANGE_ID_CHARS,
    Accepted,
    Decision,
    Refused,
    Unchanged,
    is_plain,
    register,
)
from streams.domain.registry import Rejection
from streams.pipeline.names import Names
from streams.pipeline.outbox import OutboxRecord
from streams.pipeline.registry import (
    Answer,
    Known,
    Landed,
    Outcome,
    Registered,
    Registry,
    RegistryBatch,
    Source,
    SourceRecord,
)

MAX_PROBLEMS: Final = 100
MAX_SHOWN_CHARS: Final = 500
MAX_KEPT_BYTES: Final = 3 << 20

_Encode = Callable[[Plan | Rejection], bytes]
_Decode = Callable[[bytes | None], object]


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one batch came to. `alarms` are for the log: the log of plans is not what the registry wrote."""

    accepted: int
    unchanged: int
    refused: int
    landed: int
    duplicates: int
    republished: tuple[str, ...]
    alarms: tuple[str, ...]


class Registrar:
    """The step. Has no state of its own; many may run over one registry."""

    def __init__(
        self,
        registry: Registry,
        names: Names,
        context: DocumentContext,
        encode: _Encode,
        decode: _Decode,
        now_s: Callable[[], float],
    ) -> None:
        """`decode` raises InvalidInput for bytes that are no record."""
        self._registry = registry
        self._names = names
        self._context = context
        self._encode = encode
        self._decode = decode
        self._now_s = now_s

    def handle(self, records: Sequence[SourceRecord]) -> StepReport:
        """Take a batch in, as the module says. Records of one partition come in the order of their offsets."""
        with self._registry.transaction() as transaction:
            offsets = transaction.lock_offsets(sorted({Source.of(record) for record in records}, key=_lock_order))
            step = _Step(self._names, self._context, self._encode, self._decode, int(self._now_s() * 1000))
            fresh = [record for record in records if step.is_fresh(record, offsets)]
            decoded = [(record, self._decoded(record)) for record in fresh]
            named = {value.schedule_id for _, value in decoded if isinstance(value, Change | Plan)}
            # What no id can be is refused below, and the database could not even be asked for it.
            ids = sorted(schedule_id for schedule_id in named if is_plain(schedule_id, MAX_ID_CHARS))
            step.known = dict(transaction.lock_plans(ids))
            for record, value in decoded:
                if record.topic == self._names.schedules:
                    step.read_back(record, value)
                else:
                    step.take_change(record, value)
            transaction.write(step.batch)
        return step.report()

    def _decoded(self, record: SourceRecord) -> object:
        try:
            return self._decode(record.value)
        except InvalidInput as error:
            return error


def _lock_order(source: Source) -> tuple[str, str, int]:
    return source.topic, source.topic_id, source.partition


class _Step:
    """One batch under way: decisions on what the ones before them left."""

    def __init__(self, names: Names, context: DocumentContext, encode: _Encode, decode: _Decode, now_ms: int) -> None:
        self.batch = RegistryBatch()
        self.known: dict[str, Known] = {}
        self._plans: dict[str, Plan] = {}
        self._decode = decode
        self._names = names
        self._context = context
        self._encode = encode
        self._now_ms = now_ms
        self._counts = dict.fromkeys(Outcome, 0)
        self._republished: list[str] = []
        self._alarms: list[str] = []

    def is_fresh(self, record: SourceRecord, offsets: Mapping[Source, int]) -> bool:
        """Whether the record was not taken in before; moves the source's offset past it."""
        source = Source.of(record)
        next_offset = self.batch.next_offsets.setdefault(source, offsets.get(source, 0))
        if record.offset < next_offset:
            self.batch.duplicates[source] = self.batch.duplicates.get(source, 0) + 1
            return False
        self.batch.next_offsets[source] = record.offset + 1
        return True

    def take_change(self, record: SourceRecord, value: object) -> None:
        """Decide one record of `schedule-changes`."""
        if not isinstance(value, Change):
            found = str(value) if isinstance(value, InvalidInput) else f"a {type(value).__name__}"
            self._refuse(record, None, (Problem((), ABSENT, found, "publish a ScheduleChange (schemas/)"),))
            return
        decision: Decision
        if record.key != value.schedule_id.encode():
            key = None if record.key is None else record.key.decode("utf-8", "replace")
            problem = Problem(
                ("schedule_id",), value.schedule_id, f"the record's key is {json.dumps(key)}", "use the id"
            )
            decision = Refused((problem,))
        else:
            decision = register(self._newest(value.schedule_id), value, self._context)
        if isinstance(decision, Accepted):
            decision = self._accept(record, value, decision)
        if isinstance(decision, Refused):
            self._refuse(record, value, decision.problems)
            return
        outcome = Outcome.UNCHANGED if isinstance(decision, Unchanged) else Outcome.ACCEPTED
        self._answer(value, outcome, decision.plan, ())

    def _newest(self, schedule_id: str) -> Plan | None:
        known = self.known.get(schedule_id)
        if known is None:
            return None
        if schedule_id not in self._plans:
            plan = self._decode(known.encoded)
            if not isinstance(plan, Plan):
                raise BrokenPromise(f"the registry's record of {schedule_id} is no plan; restore the database")
            self._plans[schedule_id] = plan
        return self._plans[schedule_id]

    def _accept(self, record: SourceRecord, change: Change, decision: Accepted) -> Accepted | Refused:
        plan = decision.plan
        try:
            encoded = self._encode(plan)
        except InvalidInput as error:
            return Refused((Problem(("document",), ABSENT, str(error), "write what its schema can hold"),))
        before = self.known.get(plan.schedule_id)
        self.known[plan.schedule_id] = Known(plan.sequence, encoded, before.landed_sequence if before else 0)
        self._plans[plan.schedule_id] = plan
        self.batch.registered.append(Registered(plan, encoded, change, record))
        self.batch.outbox.append(OutboxRecord(self._names.schedules, plan.schedule_id.encode(), encoded))
        return decision

    def _refuse(self, record: SourceRecord, change: Change | None, problems: Sequence[Problem]) -> None:
        shown = _shown(problems)
        value = record.value or b""
        if len(value) > MAX_KEPT_BYTES:
            value = value[:MAX_KEPT_BYTES]
            shown.append(("(record)", "null", f"longer than {MAX_KEPT_BYTES} bytes; only its beginning is kept", "-"))
        key = record.key if record.key is not None else change.schedule_id.encode() if change else b""
        rejection = Rejection(
            change_id=change.change_id if change else None,
            schedule_id=change.schedule_id if change else key.decode("utf-8", "replace"),
            problems=tuple(shown),
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            record=value,
            rejected_at_ms=self._now_ms,
        )
        self.batch.outbox.append(OutboxRecord(self._names.rejected, key, self._encode(rejection)))
        if change is not None:
            self._answer(change, Outcome.REFUSED, None, shown)
        else:
            self._counts[Outcome.REFUSED] += 1

    def _answer(
        self, change: Change, outcome: Outcome, plan: Plan | None, shown: Sequence[tuple[str, str, str, str]]
    ) -> None:
        self._counts[outcome] += 1
        # Names that a table of answers can't hold were refused for it; the rejection has them whole.
        if not is_plain(change.change_id, MAX_CHANGE_ID_CHARS) or not is_plain(change.schedule_id, MAX_ID_CHARS):
            return
        problems = [dict(zip(("field", "value", "problem", "fix"), item, strict=True)) for item in shown]
        self.batch.answers.append(
            Answer(
                change.change_id,
                change.schedule_id,
                outcome,
                plan.revisions[-1].number if plan else None,
                plan.sequence if plan else None,
                json.dumps(problems),
            )
        )

    def read_back(self, record: SourceRecord, value: object) -> None:
        """Note one record of `schedules`."""
        where = f"{record.topic}[{record.partition}] offset {record.offset}"
        if record.value is None:
            return
        if not isinstance(value, Plan):
            self._alarms.append(
                f"{where} is no plan ({value}): something else than the registrar writes to {record.topic}"
            )
            return
        known = self.known.get(value.schedule_id)
        if known is None or value.sequence > known.sequence:
            there = known.sequence if known else 0
            self._alarms.append(
                f"{where} has sequence {value.sequence} of {value.schedule_id}, and the registry only knows {there}: "
                "was the database restored, or does something else write here?"
            )
            return
        if value.sequence < known.landed_sequence:
            self.batch.outbox.append(OutboxRecord(self._names.schedules, value.schedule_id.encode(), known.encoded))
            self._republished.append(value.schedule_id)
            return
        self.known[value.schedule_id] = Known(known.sequence, known.encoded, value.sequence)
        newest = value.revisions[-1]
        self.batch.landed.append(
            Landed(
                value.schedule_id, value.incarnation, newest.number, value.sequence,
                record.partition, record.offset, record.append_ms,
            )
        )  # fmt: skip

    def report(self) -> StepReport:
        """See StepReport."""
        return StepReport(
            accepted=self._counts[Outcome.ACCEPTED],
            unchanged=self._counts[Outcome.UNCHANGED],
            refused=self._counts[Outcome.REFUSED],
            landed=len(self.batch.landed),
            duplicates=sum(self.batch.duplicates.values()),
            republished=tuple(self._republished),
            alarms=tuple(self._alarms),
        )


def _shown(problems: Sequence[Problem]) -> list[tuple[str, str, str, str]]:
    """(field, value as JSON text, problem, fix) of each, bounded in number and in size."""
    shown = [
        (
            _cut(problem.field),
            "null" if problem.value is ABSENT else _json(problem.value),
            _cut(problem.problem),
            _cut(problem.fix),
        )
        for problem in problems[:MAX_PROBLEMS]
    ]
    if len(problems) > MAX_PROBLEMS:
        shown.append(("(document)", "null", f"{len(problems) - MAX_PROBLEMS} further problems", "mend these first"))
    return shown


def _cut(text: str) -> str:
    text = text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
    return text.encode("utf-8", "replace").decode()


def _json(value: object) -> str:
    try:
        text = json.dumps(value, default=str)
    except (RecursionError, ValueError):  # what could be read can be too deep to write
        text = json.dumps(type_name(value))
    return text if len(text) <= MAX_SHOWN_CHARS else json.dumps(f"{text[:MAX_SHOWN_CHARS]}…")
