"""What the sandbox provider decides, and why: the state of its lanes. Pure; times are seconds, passed in.

The quota is a token bucket of its own rather than `streams.domain.budget`: a mistake in ours must not be repeated by
the one that judges it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from streams.domain.errors import InvalidInput


class Verdict(StrEnum):
    """What a request comes to, in the order in which it is checked."""

    REPLAYED = "replayed"  # the key is finished: the stored answer again, no quota used
    MISMATCHED = "mismatched"  # the key was used with other bytes: 422
    IN_PROGRESS = "in_progress"  # the key is being worked on: 409
    RATE_LIMITED = "rate_limited"  # 429
    ACCEPTED = "accepted"  # the effect happens now


@dataclass(frozen=True, slots=True)
class LaneSettings:
    """How a lane behaves. `idempotency_window_s` counts from the acceptance, 0 means that keys are ignored."""

    rate_per_s: float = 100.0
    burst: int = 10
    latency_s: float = 0.0
    lost_answer_share: float = 0.0
    idempotency_window_s: float = 86400.0

    def __post_init__(self) -> None:
        for name, good, allowed in (
            ("rate_per_s", self.rate_per_s > 0, "a number above 0"),
            ("burst", self.burst >= 1, "a whole number from 1"),
            ("latency_s", self.latency_s >= 0, "seconds from 0"),
            ("lost_answer_share", 0 <= self.lost_answer_share <= 1, "a share from 0 to 1"),
            ("idempotency_window_s", self.idempotency_window_s >= 0, "seconds from 0"),
        ):
            if not good:
                raise InvalidInput(f"lane: {name}: {getattr(self, name)!r}; write {allowed}")

    def changed(self, changes: Mapping[str, object]) -> LaneSettings:
        """These settings with some replaced. Raises InvalidInput for a name or value that can't be."""
        for name, value in changes.items():
            if name not in LaneSettings.__slots__:
                raise InvalidInput(f"lane: {name}: no such setting; allowed: {', '.join(LaneSettings.__slots__)}")
            kinds: tuple[type, ...] = (int,) if name == "burst" else (int, float)
            if isinstance(value, bool) or not isinstance(value, kinds):
                raise InvalidInput(f"lane: {name}: {value!r} is not a number")
        return replace(self, **changes)  # type: ignore[arg-type]  # checked above


@dataclass(slots=True)
class TokenBucket:
    """`level` tokens at `at_s`; it fills at the rate given with each call and never above the burst."""

    level: float
    at_s: float

    def take(self, now_s: float, rate_per_s: float, burst: float) -> float:
        """Take one token: 0.0 where there was one, else the seconds until there will be."""
        self.level = min(burst, self.level + max(0.0, now_s - self.at_s) * rate_per_s)
        self.at_s = max(now_s, self.at_s)
        if self.level >= 1.0 - 1e-9:
            self.level -= 1.0
            return 0.0
        return (1.0 - self.level) / rate_per_s


@dataclass(slots=True)
class Counts:
    """What a lane has seen. `duplicates`: effects beyond the first of a key. `over_quota`: by the nominal meter."""

    accepted: int = 0
    replayed: int = 0
    mismatched: int = 0
    rate_limited: int = 0
    in_progress: int = 0
    lost_answers: int = 0
    over_quota: int = 0
    duplicates: int = 0


@dataclass(slots=True)
class _Key:
    fingerprint: bytes | None
    accepted_s: float
    answer: bytes | None = None  # none while in progress


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with what its answer needs. `effects`: how often an accepted request takes effect."""

    verdict: Verdict
    answer: bytes = b""
    retry_after_s: float = 0.0
    effects: int = 1
    lost: bool = False


@dataclass(slots=True)
class Lane:
    """One lane: its quota, the keys it remembers, and what it has been told to do."""

    name: str
    settings: LaneSettings
    now_s: float
    counts: Counts = field(default_factory=Counts)
    hold: bool = False
    held: int = 0
    _bucket: TokenBucket = field(init=False)
    _nominal: TokenBucket = field(init=False)
    _dip: tuple[float, float] | None = None  # rate, until
    _sabotage: str | None = None
    _open: dict[str, _Key] = field(default_factory=dict)
    _finished: OrderedDict[str, _Key] = field(default_factory=OrderedDict)
    _effects: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(self.settings.burst, self.now_s)
        self._nominal = TokenBucket(self.settings.burst, self.now_s)

    def decide(self, key: str | None, fingerprint: bytes, now_s: float, chance: float) -> Decision:
        """Judge a request. `chance` in [0, 1) decides whether the answer to an accepted one is lost.

        An accepted key is in progress until `finish`. A request without a key is never recognised again.
        """
        self._forget(now_s)
        if key is not None and (known := self._seen(key, fingerprint)) is not None:
            return known
        wait_s = self._charge(now_s)
        if wait_s > 0.0:
            self.counts.rate_limited += 1
            return Decision(Verdict.RATE_LIMITED, retry_after_s=wait_s)
        sabotage, self._sabotage = self._sabotage, None
        effects = {"drop": 0, "double": 2}.get(sabotage or "", 1)
        self._accept(key, fingerprint, now_s, effects)
        lost = chance < self.settings.lost_answer_share
        self.counts.lost_answers += lost
        return Decision(Verdict.ACCEPTED, self._answer(), effects=effects, lost=lost)

    def finish(self, key: str | None, answer: bytes) -> None:
        """The request under this key is done, whether or not its answer got through: from now on it is replayed."""
        if key is not None and (entry := self._open.pop(key, None)) is not None:
            entry.answer = answer
            self._finished[key] = entry

    def remember(self, key: str | None, accepted_s: float) -> None:
        """An acceptance read back from the log of an earlier run: its bytes are unknown, its answer is made anew."""
        self._accept(key, None, accepted_s, 1)
        self.finish(key, self._answer())

    def dip(self, rate_per_s: float, until_s: float) -> None:
        """Cut the quota until then. The burst shrinks with the rate, or a short dip would not be felt."""
        self._dip = (rate_per_s, until_s)

    def sabotage(self, kind: str) -> None:
        """`drop`: the next accepted request is answered and has no effect. `double`: it has two."""
        self._sabotage = kind

    def stats(self) -> dict[str, int]:
        """The counts, with what is held now and how many keys had an effect."""
        counts = {name: getattr(self.counts, name) for name in Counts.__slots__}
        return {**counts, "held": self.held, "distinct_keys": len(self._effects)}

    def _seen(self, key: str, fingerprint: bytes) -> Decision | None:
        entry = self._finished.get(key) or self._open.get(key)
        if entry is None:
            return None
        if entry.fingerprint not in (None, fingerprint):
            self.counts.mismatched += 1
            return Decision(Verdict.MISMATCHED)
        if entry.answer is None:
            self.counts.in_progress += 1
            return Decision(Verdict.IN_PROGRESS)
        self.counts.replayed += 1
        return Decision(Verdict.REPLAYED, entry.answer)

    def _charge(self, now_s: float) -> float:
        rate, burst = self.settings.rate_per_s, float(self.settings.burst)
        self.counts.over_quota += self._nominal.take(now_s, rate, burst) > 0.0
        if self._dip is not None and now_s >= self._dip[1]:
            self._dip = None
        if self._dip is not None:
            burst = max(1.0, burst * self._dip[0] / rate)
            rate = self._dip[0]
        return self._bucket.take(now_s, rate, burst)

    def _accept(self, key: str | None, fingerprint: bytes | None, now_s: float, effects: int) -> None:
        self.counts.accepted += 1
        if key is None:
            return
        if effects:
            total = self._effects.get(key, 0) + effects
            self.counts.duplicates += total - max(1, total - effects)
            self._effects[key] = total
        if self.settings.idempotency_window_s > 0:
            self._open[key] = _Key(fingerprint, now_s)

    def _answer(self) -> bytes:
        return f'{{"id":"{self.name}-{self.counts.accepted}"}}'.encode()

    def _forget(self, now_s: float) -> None:
        """Drop finished keys whose window is over. They finish about in order of acceptance: look at the front."""
        oldest_s = now_s - self.settings.idempotency_window_s
        while self._finished:
            key, entry = next(iter(self._finished.items()))
            if entry.accepted_s > oldest_s:
                return
            del self._finished[key]
