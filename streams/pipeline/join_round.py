"""One round over the partitions a worker owns: from queued ticks to a committed cursor.

1. Look at the committed cursors. One that moved (set by hand, or written by a worker that is ahead) is obeyed: its
   partition begins again from there. One that is missing stops its partition.
2. Handle queued ticks, every partition's in turn, until there are enough for a batch.
3. Emit the records, and wait until the broker has acknowledged all of them.
4. Look at the batch's cursors again; a partition whose cursor moved meanwhile is left out.
5. Commit the others, with the last minute and this session.

A batch is kept until step 5 is done, so a broker that is away costs a repetition of 3 to 5 and nothing else. A worker
that dies, or that is stopped between 4 and 5 and wakes up too late, causes minutes to be handled twice: their records
are the same, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streams.domain.errors import BrokenPromise
from streams.domain.occurrence import OccurrenceRecord
from streams.pipeline.cursors import Cursor, Cursors, Verdict, judge
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.join import PartitionJoin

BATCH_MINUTES = 500
BATCH_RECORDS = 5_000


class Emitter(Protocol):
    """Where occurrence records go. Records of one partition keep the order in which they are emitted."""

    def emit(self, partition: int, record: OccurrenceRecord) -> None:
        """Hand a record over. Raises Interrupted if asked to stop while waiting for room."""
        ...

    def flush(self) -> Mapping[int, BrokenPromise]:
        """Wait until everything emitted is acknowledged; what the broker will never take, by partition.

        Raises Interrupted if asked to stop meanwhile, and a retriable error if some of it was not acknowledged: then
        all of it is to be emitted again.
        """
        ...


@dataclass(slots=True)
class _Batch:
    records: dict[int, list[OccurrenceRecord]] = field(default_factory=dict)
    cursors: dict[int, Cursor] = field(default_factory=dict)
    minutes: int = 0
    acknowledged: bool = False


@dataclass(slots=True)
class Counts:
    """What a session has done, for logs and metrics."""

    minutes: int = 0
    records: int = 0
    commits: int = 0
    repeated_batches: int = 0


class JoinRound:
    """The partitions of one worker and what it knows of their cursors. One thread calls it.

    `moved` is told of cursors to be obeyed (none: missing), and of partitions to build again from where they are.
    """

    def __init__(
        self,
        emitter: Emitter,
        cursors: Cursors,
        session: str,
        moved: Callable[[Mapping[int, Cursor | None]], None],
        interrupted: Callable[[], bool],
    ) -> None:
        self.partitions: dict[int, PartitionJoin] = {}
        self.counts = Counts()
        self.generation = -1
        self._emitter = emitter
        self._cursors = cursors
        self._session = session
        self._moved = moved
        self._interrupted = interrupted
        self._seen: dict[int, Cursor | None] = {}
        self._batch: _Batch | None = None

    def begin(self, join: PartitionJoin, seen: Cursor | None) -> None:
        """Take up a partition, or take it up anew, at a cursor that was just read."""
        self._forget_batch(join.partition)
        self.partitions[join.partition] = join
        self._seen[join.partition] = seen

    def drop(self, partition: int) -> None:
        """Forget a partition; what it has in the batch is not committed."""
        self._forget_batch(partition)
        self.partitions.pop(partition, None)
        self._seen.pop(partition, None)

    def look(self) -> None:
        """Step 1."""
        self._obey(self._cursors.read(list(self.partitions)))

    def run(self) -> bool:
        """Steps 2 to 5, with the batch that was left if there is one; whether there was anything to do.

        Raises Interrupted, and retriable errors of the ports, after which the same batch is tried again.
        """
        if self._batch is None:
            batch = self._handle()
            if not batch.cursors and not batch.records:
                self._restart_where_needed()
                return self._tidy() or batch.minutes > 0
            self._batch = batch
        else:
            self.counts.repeated_batches += 1
        self._finish(self._batch)
        self._batch = None
        self._restart_where_needed()
        self._tidy()
        return True

    def _tidy(self) -> bool:
        """Between batches, when every minute handled is committed: a slice of work on one index that needs it."""
        return any(join.tidy() for join in self.partitions.values())

    def _handle(self) -> _Batch:
        batch = _Batch()
        left = BATCH_RECORDS
        for partition, join in self.partitions.items():
            done = join.run(BATCH_MINUTES - batch.minutes, left, self._interrupted)
            batch.minutes += done.minutes
            left -= len(done.records)
            if done.next_offset is not None:
                batch.cursors[partition] = Cursor(done.next_offset, done.minute, self.generation, self._session)
            if done.records:
                batch.records[partition] = done.records
            if batch.minutes >= BATCH_MINUTES or left <= 0:
                self._go_on_after(partition)
                break
        return batch

    def _go_on_after(self, partition: int) -> None:
        """The next batch begins with the partitions that this one did not get to."""
        order = list(self.partitions)
        at = order.index(partition) + 1
        self.partitions = {number: self.partitions[number] for number in order[at:] + order[:at]}

    def _finish(self, batch: _Batch) -> None:
        if not batch.acknowledged:
            for partition, records in batch.records.items():
                for record in records:
                    self._emitter.emit(partition, record)
            for partition, problem in self._emitter.flush().items():
                batch.cursors.pop(partition, None)
                if partition in self.partitions:
                    self.partitions[partition].stop(problem)
            batch.acknowledged = True
        if batch.cursors:
            self._obey(self._cursors.read(list(batch.cursors)))
        if not batch.cursors:
            return  # in the middle of a tick that fills many missing minutes, or all of it was moved away
        if self._interrupted():
            raise Interrupted
        self._cursors.write(batch.cursors)
        self._seen.update(batch.cursors)
        self.counts.commits += 1
        self.counts.minutes += batch.minutes
        self.counts.records += sum(len(batch.records.get(partition, ())) for partition in batch.cursors)

    def _obey(self, found: Mapping[int, Cursor | None]) -> None:
        """Judge cursors as found; those that moved leave the batch, and `moved` is told of them."""
        moved: dict[int, Cursor | None] = {}
        for partition, cursor in found.items():
            verdict = judge(self._seen.get(partition), cursor, self._session, self.generation)
            if verdict is Verdict.MOVED or (verdict is Verdict.MISSING and self._seen.get(partition) is not None):
                self._forget_batch(partition)
                moved[partition] = cursor
        if moved:
            self._moved(moved)

    def _forget_batch(self, partition: int) -> None:
        if self._batch is not None:
            self._batch.cursors.pop(partition, None)
            self._batch.records.pop(partition, None)

    def _restart_where_needed(self) -> None:
        again = {number: self._seen[number] for number, join in self.partitions.items() if join.must_restart}
        if again:
            self._moved(again)
