"""The joiners of one worker: one thread, three shared librdkafka clients, a PartitionJoin for each partition owned.

Nobody has to wake the engine for it to be right: on its own it looks at the logs and the cursors every IDLE_S. A wake
makes it prompt. Whoever manages membership tells it what it owns; `suspend` and `own` return once no partition outside
the set is in the middle of anything.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextvars import copy_context
from threading import Condition, Thread
from typing import Final

import structlog
from confluent_kafka import KafkaException

from streams.adapters.clock import Clock
from streams.adapters.kafka.client import reason
from streams.adapters.kafka.join_inputs import JoinInputs
from streams.adapters.kafka.join_start import JoinStart
from streams.adapters.kafka.occurrence_emitter import OccurrenceEmitter
from streams.domain.errors import BrokenPromise, ServiceUnreachable
from streams.pipeline.cursors import Cursor
from streams.pipeline.interrupted import Interrupted
from streams.pipeline.join import Terms
from streams.pipeline.join_round import Counts, JoinRound
from streams.pipeline.names import Names

IDLE_S: Final = 2.0
_LINGER_S: Final = 0.005
_CHASE_S: Final = 1.0  # how long a wake's offset is waited for before the timer takes over
_STARVING_S: Final = 1.0
_FIRST_BACKOFF_S: Final = 0.5
_LONGEST_BACKOFF_S: Final = 5.0

_log = structlog.get_logger()


class Engine(Thread):
    """Runs until `shutdown`, or until it fails: then `failed` is called, from its thread, with the error.

    Errors of the broker are waited out, as long as they take; a partition that breaks a promise is stopped alone.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        names: Names,
        terms: Terms,
        session: str,
        clock: Clock,
        failed: Callable[[BaseException], None],
    ) -> None:
        super().__init__(name="joiners", daemon=True)
        self.error: BaseException | None = None
        self._context = copy_context()  # log lines name the process as the maker's do
        self._clock = clock
        self._failed = failed
        self._state = Condition()
        # Under _state: what others ask for. `_wanted` none is suspended.
        self._wanted: frozenset[int] | None = None
        self._generation = -1
        self._asked, self._adopted = 0, 0
        self._quit = False
        self._woken = False
        self._wakes: dict[int, int] = {}
        client_id = f"joiner-{session[:8]}"
        self._inputs = JoinInputs(bootstrap_servers, client_id, names, terms.partition_count)
        self._start = JoinStart(bootstrap_servers, client_id, names, terms, self._inputs)
        emitter = OccurrenceEmitter(bootstrap_servers, client_id, names, self._interrupted)
        self._emitter = emitter
        self._round = JoinRound(emitter, self._inputs, session, self._moved, self._interrupted)
        self._to_begin: dict[int, Cursor | None] = {}
        self._unread: set[int] = set()
        self._suspended = True
        self._told: set[int] = set()
        self._chased: dict[int, int] = {}  # offsets of ticks known to be there, to be read to
        self._starving_since: dict[int, float] = {}
        self._backoff_s = _FIRST_BACKOFF_S

    @property
    def counts(self) -> Counts:
        """What has been done so far; read by anyone."""
        return self._round.counts

    # From other threads.

    def wake(self, partition: int, next_offset: int) -> None:
        """A tick has been appended below `next_offset`: read to there now."""
        with self._state:
            self._wakes[partition] = max(next_offset, self._wakes.get(partition, 0))
            self._woken = True
            self._state.notify_all()

    def suspend(self, timeout_s: float) -> bool:
        """Stop everything between two batches, keeping what is in memory; whether that was in time."""
        return self._ask(None, -1, timeout_s)

    def own(self, partitions: Collection[int], generation: int, timeout_s: float) -> bool:
        """Work on these partitions and no others; whether the others were let go of in time."""
        return self._ask(frozenset(partitions), generation, timeout_s)

    def shutdown(self, timeout_s: float) -> bool:
        """Stop for good, between two batches or in the middle of one that is then handled again; whether in time."""
        with self._state:
            self._quit = True
            self._state.notify_all()
        self.join(timeout_s)
        return not self.is_alive()

    def _ask(self, wanted: frozenset[int] | None, generation: int, timeout_s: float) -> bool:
        with self._state:
            self._wanted, self._generation = wanted, generation
            self._asked += 1
            mine = self._asked
            self._state.notify_all()
            self._state.wait_for(lambda: self._adopted >= mine or not self.is_alive(), timeout_s)
            return self._adopted >= mine or not self.is_alive()

    # The engine's own thread.

    def run(self) -> None:
        """See Thread."""
        self._context.run(self._work)

    def _work(self) -> None:
        try:
            while not self._quit:
                self._attempt()
        except BaseException as error:  # noqa: BLE001 - a thread's last frame: it is handed to whoever runs the worker
            self.error = error
            self._failed(error)
        finally:
            with self._state:
                self._adopted = self._asked
                self._state.notify_all()
            self._emitter.close()
            self._inputs.close()

    def _attempt(self) -> None:
        """A turn, and a wait; after an error that will pass, a longer wait."""
        try:
            busy = self._turn()
            self._backoff_s = _FIRST_BACKOFF_S
        except Interrupted:
            return
        except (KafkaException, ServiceUnreachable) as error:
            if isinstance(error, KafkaException) and error.args[0].fatal():
                raise
            text = reason(error) if isinstance(error, KafkaException) else str(error)
            _log.warning("broker_trouble", problem=text, again_in_s=self._backoff_s)
            self._wait(self._backoff_s, wakes=False)
            self._backoff_s = min(self._backoff_s * 2, _LONGEST_BACKOFF_S)
            return
        if not busy:
            self._wait(IDLE_S, wakes=True)

    def _wait(self, timeout_s: float, *, wakes: bool) -> None:
        with self._state:
            if not wakes:
                self._woken = False
            self._state.wait_for(lambda: self._quit or self._asked != self._adopted or self._woken, timeout_s)
            self._woken = False

    def _interrupted(self) -> bool:
        return self._quit or self._asked != self._adopted

    def _turn(self) -> bool:
        """Adopt, begin, then read and handle until there is nothing left; whether to come back at once."""
        self._adopt()
        if self._suspended:
            return False
        self._read_cursors()
        self._round.look()
        self._begin()
        with self._state:
            self._chased |= self._wakes
            self._wakes = {}
        deadline_s = self._clock.boot_s() + _CHASE_S
        while not self._interrupted():
            read = self._inputs.pump_plans(0.0) + self._inputs.pull_ticks(0.0)
            did = self._round.run()
            self._begin()
            self._report_problems()
            if read or did:
                continue
            starving, late = self._check_starving(), self._clock.boot_s() >= deadline_s
            if not starving and (late or not self._is_behind()):
                return False
            # The logs are polled, gently: what is waited for is on its way.
            read = self._inputs.pump_plans(_LINGER_S) if starving else self._inputs.pull_ticks(_LINGER_S)
            if late and not read:
                return True
        return True

    def _is_behind(self) -> bool:
        """Whether ticks that are known to be there have not arrived yet."""
        behind = {p: end for p, end in self._chased.items() if p in self._round.partitions}
        self._chased = {p: end for p, end in behind.items() if self._inputs.tick_position(p) < end}
        return any(self._round.partitions[p].problem is None for p in self._chased)

    def _adopt(self) -> None:
        with self._state:
            wanted, generation, asked = self._wanted, self._generation, self._asked
        if asked != self._adopted:
            self._suspended = wanted is None
            if wanted is not None:
                self._round.generation = generation
                for partition in [p for p in self._round.partitions if p not in wanted]:
                    self._drop(partition)
                self._unread = set(wanted - self._round.partitions.keys())
                self._to_begin = {}
                _log.info("partitions_owned", partitions=sorted(wanted), generation=generation)
        with self._state:
            self._adopted = asked
            self._state.notify_all()

    def _drop(self, partition: int) -> None:
        self._inputs.end(partition)
        self._round.drop(partition)
        self._told.discard(partition)
        self._starving_since.pop(partition, None)

    def _read_cursors(self) -> None:
        if self._unread:
            self._to_begin |= self._inputs.read(self._unread)
            self._unread = set()

    def _moved(self, cursors: Mapping[int, Cursor | None]) -> None:
        """The round found cursors to be obeyed: their partitions begin again, after the round."""
        offsets = {partition: None if cursor is None else cursor.offset for partition, cursor in cursors.items()}
        _log.warning("cursors_moved", offsets=offsets)
        self._to_begin |= cursors

    def _begin(self) -> None:
        if not self._to_begin:
            return
        keep_all = frozenset(p for p, join in self._round.partitions.items() if join.must_restart)
        for partition, (join, end) in self._start.begin(self._to_begin, keep_all).items():
            self._told.discard(partition)
            self._round.begin(join, self._to_begin[partition])
            self._chased[partition] = end
        self._to_begin = {}
        self._report_problems()

    def _report_problems(self) -> None:
        for partition, join in self._round.partitions.items():
            if join.problem is not None and partition not in self._told:
                self._told.add(partition)
                self._inputs.end(partition)
                _log.error(
                    "partition_stopped",
                    partition=partition,
                    problem=str(join.problem),
                    then="mend it, and start processors again",
                )

    def _check_starving(self) -> bool:
        """Whether a partition waits for its plans; one that waits for more than its log holds is stopped."""
        now_s, starving = self._clock.boot_s(), False
        for partition, join in self._round.partitions.items():
            need = join.starving_for()
            if need is None:
                self._starving_since.pop(partition, None)
                continue
            starving = True
            if now_s - self._starving_since.setdefault(partition, now_s) >= _STARVING_S:
                self._starving_since[partition] = now_s
                topic, offset = need
                end = self._inputs.end_of(topic, partition)
                if end < offset:
                    join.stop(
                        BrokenPromise(
                            f"ticks[{partition}]: a tick's watermark {offset} is beyond the end {end} of {topic}: the "
                            "log has lost records it had; restore them, or begin anew under another topic_prefix"
                        )
                    )
        return starving
