"""The pure parts of the benchmarks: what is computed from what was measured, and that nothing else is shown."""

from __future__ import annotations

import io
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import calendar
from benchmarks.edge import accepted_after_s
from benchmarks.figures import Figure, Spent, percentile, rate, render, shown, to_json, to_markdown
from benchmarks.load import DAY, PROVIDER, REGION, ZONES, day_of_schedules
from benchmarks.machine import cores, cpu_model, cpu_s
from benchmarks.pipeline import KEYS, PARTS, parts_to_run
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.document import DocumentContext
from streams.domain.errors import BrokenPromise
from streams.domain.minutes import MINUTES_PER_DAY
from streams.domain.preview import preview
from streams.domain.registration import Accepted, register


@pytest.mark.parametrize(
    ("percent", "expected"), [(50, 5), (50.1, 6), (90, 9), (90.01, 10), (99, 10), (100, 10), (0.001, 1)]
)
def test_a_percentile_is_the_nearest_rank(percent: float, expected: int) -> None:
    assert percentile([10, 9, 8, 7, 6, 5, 4, 3, 2, 1], percent) == expected


def test_the_percentile_of_sixty_values_is_one_of_them() -> None:
    values = [float(n) for n in range(60)]
    assert (percentile(values, 50), percentile(values, 98), percentile(values, 99)) == (29.0, 58.0, 59.0)


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_no_percentile_where_there_is_none(values: list[float], percent: float) -> None:
    with pytest.raises(ValueError, match="no percentile"):
        percentile(values, percent)


def test_a_rate_says_over_how_much() -> None:
    figure = rate("intake_per_s", "intake", 1500, 0.5, Spent(0.15, 1000), batches=4)
    assert figure == Figure(
        "intake_per_s", 3000.0, "/s", "intake", {"count": 1500, "seconds": 0.5, "batches": 4, "cpu_us_each": 150.0}
    )


@pytest.mark.parametrize("spent", [None, Spent(None, 10), Spent(1.0, 0), Spent.between(None, 2.0, 5)])
def test_processor_time_that_was_not_measured_is_left_out(spent: Spent | None) -> None:
    assert "cpu_us_each" not in rate("a", "", 10, 2.0, spent).of


@pytest.mark.parametrize(("count", "seconds"), [(0, 1.0), (10, 0.0), (10, -0.1)])
def test_nothing_measured_is_no_rate(count: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="is no rate"):
        rate("a", "", count, seconds)


def test_json_has_every_key_and_null_for_what_was_not_measured() -> None:
    figures = [rate("evaluate_per_s", "", 48_000, 3.7)]
    found = to_json(figures, KEYS, {"schedules": 48_000}, {"cores": 2})
    assert list(found)[: len(KEYS)] == list(KEYS)
    assert found["evaluate_per_s"] == 12_970.0
    assert {found[key] for key in KEYS if key != "evaluate_per_s"} == {None}
    assert found["measured_over"] == {"evaluate_per_s": {"count": 48_000, "seconds": 3.7}}
    assert found["sizes"] == {"schedules": 48_000}
    assert found["machine"] == {"cores": 2}
    json.dumps(found)


def test_a_figure_that_no_key_knows_is_an_error() -> None:
    with pytest.raises(ValueError, match="mystery"):
        to_json([Figure("mystery", 1, "s", "")], KEYS, {}, {})


def test_the_table_shows_each_figure_and_the_machine() -> None:
    out = io.StringIO()
    figures = [rate("intake_per_s", "into the ledger", 96_000, 9.6), Figure("edge_p50_s", 0.12345, "s", "edge")]
    render(figures, {"cores": 2, "python": "3.11"}, Console(file=out, width=160))
    lines = out.getvalue().splitlines()
    assert lines[0].split() == ["FIGURE", "VALUE", "WHAT", "MEASURED", "OVER"]
    assert " ".join(lines[1].split()) == "intake_per_s 10,000 /s into the ledger 96,000 count, 9.6 seconds"
    assert lines[2].split() == ["edge_p50_s", "0.123", "s", "edge"]
    assert lines[3] == "machine: cores 2, python 3.11"
    assert shown(figures[0]) == "10,000"


def test_the_page_has_the_same_table() -> None:
    figures = [rate("intake_per_s", "into the ledger", 96_000, 9.6), Figure("edge_p50_s", 0.12345, "s", "edge")]
    assert to_markdown(figures, {"cores": 2, "python": "3.11"}).splitlines()[2:] == [
        "| `intake_per_s` | 10,000/s | into the ledger | 96,000 count, 9.6 seconds |",
        "| `edge_p50_s` | 0.123 s | edge |  |",
        "",
        "Machine: cores 2, python 3.11.",
    ]


def test_the_documentation_has_every_figure_once_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs" / "figures.md").read_text("utf-8")
    run = page.partition("## One run")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z0-9_]+)` \|", run, re.MULTILINE) == list(KEYS)


def test_a_part_brings_those_it_needs() -> None:
    assert parts_to_run([]) == list(PARTS)
    assert parts_to_run(["intake"]) == ["register", "evaluate", "intake"]
    assert parts_to_run(["edge"]) == ["edge"]
    assert parts_to_run(["edge", "register"]) == ["register", "edge"]


def test_every_schedule_fires_once_at_its_own_minute_and_once_at_the_busy_one() -> None:
    bundle = wheel_bundle()
    context = DocumentContext(frozenset(bundle.names), frozenset({REGION}), frozenset({PROVIDER}))
    decisions = [register(None, change, context) for change in day_of_schedules(2 * len(ZONES), 40, 50)]
    schedules = []
    for decision in decisions:
        assert isinstance(decision, Accepted), decision
        schedules.append(decision.plan.revisions[-1].schedule)
    assert {schedule.zone for schedule in schedules} == set(ZONES)
    due = Counter(line.instant for line in preview(schedules, bundle, DAY, DAY + MINUTES_PER_DAY))
    assert due == Counter({**dict.fromkeys(range(DAY, DAY + 40), 2), DAY + 50: len(schedules)})


def test_edges_are_read_from_what_the_provider_wrote(tmp_path: Path) -> None:
    log = tmp_path / "provider.jsonl"
    body = {"instant": "2027-02-02T09:00:00Z"}
    edge_s = (DAY + 540) * 60
    lines = [
        {"at": edge_s + 0.25, "event": "accepted", "idempotency_key": "a", "body": body},
        {"at": edge_s + 0.26, "event": "answered", "idempotency_key": "a"},
        {"at": edge_s + 0.5, "event": "accepted", "idempotency_key": "b", "body": body},
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert accepted_after_s(log) == [0.25, 0.5]
    log.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0]]))
    with pytest.raises(BrokenPromise, match="accepted twice"):
        accepted_after_s(log)


def test_the_machine_is_named(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: Some CPU @ 2.0: fast\nflags\t: fpu\n")
    assert cpu_model(cpuinfo) == "Some CPU @ 2.0: fast"
    assert cpu_model(tmp_path / "none")
    assert cores() >= 1


def test_processor_time_of_a_process() -> None:
    own = cpu_s(os.getpid())
    times = os.times()
    if own is not None:
        assert own == pytest.approx(times.user + times.system, abs=0.1)
    assert cpu_s(2**22 + 1) is None


def test_the_calendar_benchmark_measures_every_key_and_counts_what_the_peers_count() -> None:
    sizes = (4_200, 5_000)
    benchmark = calendar.CalendarBenchmark(sizes, sizes[-1], 20, lambda text: None)
    benchmark.run()
    found = benchmark.to_json()
    assert list(found)[1 : 1 + len(calendar.KEYS)] == list(calendar.KEYS)
    assert found["schedules"] == 5_000
    assert found["busy_due"] == 240
    growth = found["growth"]
    assert isinstance(growth, dict)
    assert {size: set(figures) for size, figures in growth.items()} == {str(size): set(calendar.KEYS) for size in sizes}
    assert [figure.key for figure in benchmark.figures] == list(calendar.KEYS)
    measured = [peer for peer in benchmark.peers.values() if peer is not None]
    assert measured, "croniter comes with Faust"
    assert all(peer["occurrences"] == peer["occurrences_expected"] for peer in measured)
    json.dumps(found)
