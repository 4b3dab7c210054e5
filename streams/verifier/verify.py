"""Compare what was promised with what the provider saw and with what the ledger says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from streams.verifier.documents import Demo, History, Window, ids_of, load_demo, load_histories
from streams.verifier.effects import Effect, ProviderLog, read_log
from streams.verifier.ledger import LedgerRow, by_key, read_ledger
from streams.verifier.minutes import instant_text, label_text
from streams.verifier.oracle import Promised, Promises, promises
from streams.verifier.placement import partition_of
from streams.verifier.report import WindowReport


def verify(examples_dir: Path, window: str, provider_log: Path, dsn: str, schema: str) -> WindowReport:
    """Verify one window of the demo against one provider's log and one ledger schema.

    Reads the YAML of `examples_dir`, the log and the view `ledger`, nothing else. Raises VerifierError where one of
    them can't be read; whatever they say, right or wrong, is in the report.
    """
    return verify_rows(examples_dir, window, provider_log, read_ledger(dsn, schema))


def verify_rows(examples_dir: Path, window: str, provider_log: Path, rows: Iterable[LedgerRow]) -> WindowReport:
    """The same with the ledger's rows at hand."""
    demo = load_demo(examples_dir)
    chosen = demo.window(window)
    histories = load_histories(examples_dir, demo, chosen)
    return compare(demo, chosen, histories, read_log(provider_log), rows)


def count_promised(examples_dir: Path, window: str) -> int:
    """How many occurrences a window promises, for a progress bar and to know when a run is complete."""
    demo = load_demo(examples_dir)
    chosen = demo.window(window)
    return len(promises(load_histories(examples_dir, demo, chosen), chosen.start, chosen.end).by_key)


def compare(
    demo: Demo, window: Window, histories: list[History], log: ProviderLog, rows: Iterable[LedgerRow]
) -> WindowReport:
    """The comparison itself, in four passes: labels not fired, promises, effects nobody promised, and the ledger."""
    report = WindowReport(window.name)
    promised = promises(histories, window.start, window.end)
    ledger, again = by_key(rows)
    effects: dict[str, list[Effect]] = {}
    for effect in log.effects:
        effects.setdefault(effect.key, []).append(effect)

    _report_not_fired(report, demo, promised)
    _report_promises(report, demo, ids_of(histories), promised, effects, ledger)
    _report_phantoms(report, demo, promised, effects)
    _report_ledger(report, promised, effects, ledger, again)
    report.lanes = {lane: dict(sorted(counts.items())) for lane, counts in sorted(log.events.items())}
    report.ledger_states = dict(sorted(Counter(row.state for row in ledger.values()).items()))
    return report


def _report_not_fired(report: WindowReport, demo: Demo, promised: Promises) -> None:
    """Labels that did not fire, by region and reason, and those that an edit brought again."""
    for entry in promised.not_fired:
        reasons = report.not_fired.setdefault(entry.region, {})
        reasons[entry.reason] = reasons.get(entry.reason, 0) + 1
    for repeat in promised.repeated:
        partition = partition_of(repeat.revision.schedule_id, demo.partitions)
        report.count(repeat.revision.region, partition, "repeated")


def _report_promises(
    report: WindowReport,
    demo: Demo,
    histories: Mapping[str, History],
    promised: Promises,
    effects: Mapping[str, list[Effect]],
    ledger: Mapping[str, LedgerRow],
) -> None:
    """Each promise: delivered once, or what else became of it."""
    for key, promise in promised.by_key.items():
        schedule_id, region = promise.revision.schedule_id, promise.revision.region
        partition = partition_of(schedule_id, demo.partitions)
        seen, row = effects.get(key, []), ledger.get(key)
        if not seen and row and row.state == "cancelled" and _may_be_cancelled(histories[schedule_id], promise):
            report.count(region, partition, "cancelled")
            continue
        report.count(region, partition, "promised")
        if row and row.attempts > 1:
            report.count(region, partition, "retried")
        if seen:
            report.count(region, partition, "delivered")
        elif row and row.state == "review":
            report.count(region, partition, "in_review")
            report.note("in_review", _words(promise))
        else:
            report.count(region, partition, "missing")
            report.note("missing", f"{_words(promise)}; the ledger says {row.state if row else 'nothing'}")
        for extra in seen[1:]:
            report.count(region, partition, "duplicated")
            report.note("duplicated", f"{_words(promise)}; log line {extra.line} after line {seen[0].line}")
        for effect in seen:
            if differences := _differences(promise, effect):
                report.count(region, partition, "wrong")
                report.note("wrong", f"{_words(promise)}; log line {effect.line}: {', '.join(differences)}")


def _may_be_cancelled(history: History, promise: Promised) -> bool:
    """Whether the schedule was deleted or paused at or after the promise's minute, with `on_delete: cancel`.

    Such an occurrence, if unsent when the change counted, is rightly never sent; timing decides: it is counted apart.
    """
    ended = history.ended_at is not None and promise.tick <= history.ended_at
    return ended and promise.revision.on_delete == "cancel"


def _differences(promise: Promised, effect: Effect) -> list[str]:
    """Where an effect's body or lane is not what was promised."""
    revision = promise.revision
    expected: dict[str, object] = {
        "key": promise.key,
        "schedule_id": revision.schedule_id,
        "nominal": label_text(promise.label),
        "zone": revision.zone,
        "instant": instant_text(promise.tick),
        "tenant": revision.tenant,
        "account": revision.account,
        "to": revision.to,
        "payload": revision.payload,
    }
    found = [
        f"{name} is {effect.body.get(name)!r}, promised {value!r}"
        for name, value in expected.items()
        if effect.body.get(name) != value
    ]
    if effect.lane != revision.provider:
        found.append(f"lane is {effect.lane!r}, promised {revision.provider!r}")
    return found


def _report_phantoms(report: WindowReport, demo: Demo, promised: Promises, effects: Mapping[str, list[Effect]]) -> None:
    """Effects under keys that nobody promised. Those beyond a phantom's first are duplicates too."""
    region_of = {provider: region for region, provider in demo.regions.items()}
    for key, seen in effects.items():
        if key in promised.by_key:
            continue
        schedule_id = str(seen[0].body.get("schedule_id", ""))
        region = region_of.get(seen[0].lane, seen[0].lane)
        partition = partition_of(schedule_id, demo.partitions)
        report.count(region, partition, "phantom")
        report.note("phantom", f"{schedule_id} {seen[0].body.get('nominal')}, key {key}, log line {seen[0].line}")
        for _ in seen[1:]:
            report.count(region, partition, "duplicated")


def _report_ledger(
    report: WindowReport,
    promised: Promises,
    effects: Mapping[str, list[Effect]],
    ledger: Mapping[str, LedgerRow],
    again: list[str],
) -> None:
    """Where the ledger's word is not the provider's, or not the oracle's."""
    for key in again:
        report.disagree("key_twice_in_ledger", key)
    for key, row in ledger.items():
        words = f"{row.schedule_id} {row.nominal}, key {key}, state {row.state}"
        promise = promised.by_key.get(key)
        if promise is None:
            report.disagree("in_ledger_but_not_promised", words)
        elif not _same_terms(promise, row):
            report.disagree(
                "ledger_terms_differ", f"{words}: {row.nominal} {row.zone} {row.instant}, {_words(promise)}"
            )
        if (row.state == "done") != (key in effects):
            kind = "done_without_effect" if row.state == "done" else "effect_without_done"
            report.disagree(kind, words)
    for key in promised.by_key.keys() - ledger.keys():
        report.disagree("promised_but_not_in_ledger", _words(promised.by_key[key]))
    for key in effects.keys() - ledger.keys():
        report.disagree("effect_not_in_ledger", key)


def _same_terms(promise: Promised, row: LedgerRow) -> bool:
    """Whether a row has the label, zone, instant, region and provider that were promised."""
    revision = promise.revision
    tick = int(row.instant.timestamp()) // 60 if row.instant else None
    promised = (revision.schedule_id, revision.region, revision.provider, label_text(promise.label), revision.zone)
    return (*promised, promise.tick) == (row.schedule_id, row.region, row.provider, row.nominal, row.zone, tick)


def _words(promise: Promised) -> str:
    """A promise for people."""
    revision = promise.revision
    second = " (second copy)" if promise.copy else ""
    return (
        f"{revision.schedule_id} {label_text(promise.label)} {revision.zone}{second}"
        f" at {instant_text(promise.tick)}, key {promise.key}"
    )
