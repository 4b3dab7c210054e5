"""What a rejection says of each problem: bounded, whatever the value is."""

from __future__ import annotations

from streams.domain.errors import Problem
from streams.pipeline.register import MAX_PROBLEMS, MAX_SHOWN_CHARS, _shown


def test_a_value_too_deep_to_be_written_is_named_by_its_type() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    assert _shown([Problem(("color",), deep, "there is no such field", "leave it out")]) == [
        ("color", '"a list"', "there is no such field", "leave it out")
    ]


def test_problems_and_values_are_cut() -> None:
    shown = _shown([Problem(("x" * 9_999,), "y" * 9_999, "p", "f")] * (MAX_PROBLEMS + 5))
    assert len(shown) == MAX_PROBLEMS + 1
    assert shown[-1][2] == "5 further problems"
    assert max(len(text) for item in shown for text in item) <= MAX_SHOWN_CHARS + 10
