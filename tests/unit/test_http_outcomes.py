"""The table of outcomes, Retry-After in both forms, and details fit for people."""

from __future__ import annotations

import pytest

from streams.adapters.http.outcomes import one_line, outcome_of, retry_after_s
from streams.domain.outcome import Outcome

TABLE = {
    Outcome.DONE: [200, 201, 202, 204, 299],
    Outcome.RATE_LIMITED: [429],
    Outcome.FORBIDDEN: [401, 403],
    Outcome.GONE: [410],
    Outcome.REJECTED: [300, 301, 302, 303, 307, 308, 400, 402, 404, 405, 413, 415, 422, 451, 499],
    Outcome.UNKNOWN: [101, 408, 409, 425, 500, 501, 502, 503, 504, 599, 600, 999],
}


@pytest.mark.parametrize(("status", "outcome"), [(s, o) for o, statuses in TABLE.items() for s in statuses])
def test_status(status: int, outcome: Outcome) -> None:
    assert outcome_of(status) is outcome


def test_503_is_unsent_only_where_the_provider_vouches_for_it() -> None:
    assert outcome_of(503, unsent_on_503=True) is Outcome.UNSENT
    assert outcome_of(502, unsent_on_503=True) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        (None, None, None),
        ("0", None, 0.0),
        ("120", None, 120.0),
        (" 7 ", None, 7.0),
        ("9" * 5000, None, 999_999_999_999.0),
        ("-1", None, None),
        ("1.5", None, None),
        ("٣", None, None),
        ("soon", None, None),
        ("", None, None),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:07 GMT", 30.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None, 37.0),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "no date", 37.0),
        ("Sun, 06 Nov 1994 08:48:37 GMT", None, 0.0),
        ("Sun Nov  6 08:49:37 1994", None, 37.0),
        ("Sun, 06 Nov 99999999 08:49:37 GMT", None, None),
    ],
)
def test_retry_after(value: str | None, date: str | None, seconds: float | None) -> None:
    at_0849_utc = 784111740.0  # 1994-11-06T08:49:00Z
    assert retry_after_s(value, date, at_0849_utc) == seconds


def test_foreign_text_becomes_one_short_line_without_the_secret() -> None:
    assert one_line("a\r\nb\x1b[31m\tc") == "a  b [31m c"
    assert len(one_line("x" * 10_000)) <= 200
    assert "hunter2" not in one_line("x" * 198 + "hunter2" * 5, "hunter2")
    assert one_line("Bearer hunter2 is wrong", "hunter2") == "Bearer *** is wrong"
