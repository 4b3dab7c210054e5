"""From schedules to columns: what a merge adds to the base, each distinct thing once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from streams.domain.bounds import span_of
from streams.domain.bundle import ZoneBundle
from streams.domain.csr_base import ALWAYS, LEAST, MOST, NEVER_SINCE, Base, Group, Ints, Objects, Terms
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.predicates import DatePredicate
from streams.domain.rules import CompiledRule, compile_rule, minutes_of_day
from streams.domain.schedule import Every, Promise, Schedule

DENSE_MINUTES = 24  # a rule with more minutes than this is kept by group

_T = TypeVar("_T", bound=Hashable)
_Limits = tuple[object, ...]
_ID, _ZONE = attrgetter("id"), attrgetter("zone")
_COUNT = attrgetter("count")
_POLICY, _EFFECTIVE_FROM = attrgetter("policy"), attrgetter("effective_from")
_LIMITS = attrgetter("starts_on", "ends_on", "except_dates")


class Row(NamedTuple):
    """A schedule to be added, as it was put, and its rule as compiled once."""

    number: int
    schedule: Schedule
    since: int | None
    compiled: CompiledRule


def has_labels(schedule: Schedule) -> bool:
    """Whether its rule is made of minutes and dates, and its promise is one for a label; else no base takes it."""
    return schedule.promise is Promise.LABEL and not isinstance(schedule.rule, Every)


def row_of(number: int, schedule: Schedule, since: int | None) -> Row:
    """The row of a schedule with labels. Raises InvalidInput for a rule that can't be compiled."""
    return _new_row((number, schedule, since, compile_rule(schedule.rule)))


def unfit(rows: Collection[Row]) -> list[Row]:
    """Those with a number or tick of more than 32 bits, which no base can hold."""
    numbers = [row.number for row in rows]
    effective = map(_EFFECTIVE_FROM, [row.schedule for row in rows])
    if all(map(_in_range, {min(numbers), max(numbers), *(row.since for row in rows), *effective})):
        return []
    return [row for row in rows if not all(map(_in_range, (row.number, row.since, row.schedule.effective_from)))]


_new_row = partial(tuple.__new__, Row)  # in C: a build makes one for each schedule


def _in_range(bound: int | None) -> bool:
    return bound is None or LEAST <= bound <= MOST


def _limits_of(schedules: Sequence[Schedule]) -> Callable[[Schedule], _Limits]:
    """What schedules have to agree in to share their terms; the last of a count depends on the rule."""
    if all(count is None for count in map(_COUNT, schedules)):
        return _LIMITS
    return lambda schedule: (*_LIMITS(schedule), schedule.count, None if schedule.count is None else schedule.rule)


class Numbered(dict[_T, int], Generic[_T]):
    """Numbers for distinct things, from 0 in the order in which they are met; `[thing]` gives one its number."""

    def __init__(self, known: Iterable[_T] = ()) -> None:
        super().__init__((thing, number) for number, thing in enumerate(known))

    def __missing__(self, thing: _T) -> int:
        number = self[thing] = len(self)
        return number


@dataclass(slots=True)
class Columns:
    """Some rows, in their order. `entry_*` and `group_*` name rows by their place in it."""

    ids: Objects
    numbers: Ints
    codes: Ints
    since: Ints
    effective_from: Ints | None
    term_of: Ints
    entry_keys: Ints
    entry_rows: Ints
    entry_preds: Ints
    group_numbers: Ints
    group_rows: Ints

    @classmethod
    def join(cls, parts: Sequence[tuple[int, Columns]]) -> Columns:
        """Several as one. Each comes with the place of its first row."""
        columns = [part for _, part in parts]

        def all_of(column: Callable[[Columns], Ints]) -> Ints:
            return np.concatenate([column(part) for part in columns])

        def moved(column: Callable[[Columns], Ints]) -> Ints:
            return np.concatenate([column(part) + first for first, part in parts])

        some_effective = any(part.effective_from is not None for part in columns)
        return cls(
            ids=np.concatenate([part.ids for part in columns]),
            numbers=all_of(lambda part: part.numbers),
            codes=all_of(lambda part: part.codes),
            since=all_of(lambda part: part.since),
            effective_from=all_of(effective_or_never) if some_effective else None,
            term_of=all_of(lambda part: part.term_of),
            entry_keys=all_of(lambda part: part.entry_keys),
            entry_rows=moved(lambda part: part.entry_rows),
            entry_preds=all_of(lambda part: part.entry_preds),
            group_numbers=all_of(lambda part: part.group_numbers),
            group_rows=moved(lambda part: part.group_rows),
        )


def effective_or_never(columns: Columns | Base) -> Ints:
    """`effective_from` of every row, as if all of them had one."""
    if columns.effective_from is not None:
        return columns.effective_from
    return np.full(len(columns.numbers), NEVER_SINCE, np.int32)


class Catalog:
    """The distinct zones, predicates, terms, sets of minutes and groups of the base that a merge makes."""

    def __init__(
        self,
        bundle: ZoneBundle,
        zones: Iterable[str] = (),
        predicates: Iterable[DatePredicate] = (),
        terms: Iterable[Terms] = (ALWAYS,),
        minute_sets: Iterable[int] = (),
        groups: Iterable[Group] = (),
    ) -> None:
        self._bundle = bundle
        self.zones: Numbered[str] = Numbered(zones)
        self.predicates: Numbered[DatePredicate] = Numbered(predicates)
        self.terms: Numbered[Terms] = Numbered(terms)
        self.minute_sets: Numbered[int] = Numbered(minute_sets)
        self.groups: Numbered[Group] = Numbered(groups)

    def columns(self, rows: Sequence[Row]) -> Columns:
        """The rows as columns. Each Python step is one per row, in C where it can be: this is what a build costs."""
        count = len(rows)
        schedules = [row.schedule for row in rows]

        def column(values: Iterable[int]) -> Ints:
            return np.fromiter(values, np.int32, count)

        # Equal objects need not be the same, which only costs a number; none of them can vanish meanwhile.
        policies = {id(policy): policy for policy in map(_POLICY, schedules)}
        codes = {identity: policy.code for identity, policy in policies.items()}
        rules = [row.compiled for row in rows]
        rule_numbers: Numbered[int] = Numbered()
        rule_of = column(map(rule_numbers.__getitem__, map(id, rules)))
        distinct = {id(rule): rule for rule in rules}
        limits: Numbered[_Limits] = Numbered()
        limit_of = column(map(limits.__getitem__, map(_limits_of(schedules), schedules)))
        some = dict(zip(limit_of.tolist(), schedules, strict=True))
        spans = [Terms(*span_of(some[n]), some[n].except_dates) for n in range(len(limits))]
        terms = np.array([self.terms[span] for span in spans], np.int32)
        effective = list(map(_EFFECTIVE_FROM, schedules))
        ids = np.empty(count, object)
        ids[:] = list(map(_ID, schedules))
        zone_of = column(map(self.zones.__getitem__, map(_ZONE, schedules)))
        keys, entry_rows, preds, group_numbers, group_rows = self._entries(
            zone_of, rule_of, [distinct[identity] for identity in rule_numbers]
        )
        return Columns(
            ids=ids,
            numbers=column([row.number for row in rows]),
            codes=np.fromiter(map(codes.__getitem__, map(id, map(_POLICY, schedules))), np.uint8, count),
            since=column([NEVER_SINCE if row.since is None else row.since for row in rows]),
            effective_from=None
            if effective.count(None) == count
            else column(NEVER_SINCE if tick is None else tick for tick in effective),
            term_of=terms[limit_of],
            entry_keys=keys,
            entry_rows=entry_rows,
            entry_preds=preds,
            group_numbers=group_numbers,
            group_rows=group_rows,
        )

    def _entries(
        self, zone_of: Ints, rule_of: Ints, rules: Sequence[CompiledRule]
    ) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Keys, rows and predicates of the rows' entries; groups and rows of the dense ones."""
        pred_of = np.array([self.predicates[rule.predicate] for rule in rules], np.int32)
        dense = np.array([rule.minutes.bit_count() > DENSE_MINUTES for rule in rules], np.bool_)
        minutes = [() if dense[n] else minutes_of_day(rule.minutes) for n, rule in enumerate(rules)]
        length = np.array([len(each) for each in minutes], np.int64)
        start = np.cumsum(length) - length
        flat = np.array([minute for each in minutes for minute in each], np.int32)
        count = length[rule_of]
        rows = np.repeat(np.arange(len(rule_of), dtype=np.int32), count)
        entry = np.arange(len(rows)) + np.repeat(start[rule_of] - np.cumsum(count) + count, count)
        keys = np.repeat(zone_of * MINUTES_PER_DAY, count) + flat[entry]
        group_rows = np.flatnonzero(dense[rule_of]).astype(np.int32)
        groups = [
            self.groups[Group(zone, self.minute_sets[rules[rule].minutes], int(pred_of[rule]))]
            for zone, rule in zip(zone_of[group_rows].tolist(), rule_of[group_rows].tolist(), strict=True)
        ]
        return keys, rows, np.repeat(pred_of[rule_of], count), np.array(groups, np.int32), group_rows
