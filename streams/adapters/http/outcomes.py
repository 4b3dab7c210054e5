"""What a provider's status, headers and failures mean as an outcome. Pure: the table of design section 8."""

from __future__ import annotations

from datetime import UTC
from email.utils import parsedate_to_datetime

from streams.domain.outcome import Outcome

_UNKNOWN_4XX = frozenset({408, 409, 425})
_DETAIL_CHARACTERS = 200


def outcome_of(status: int, *, unsent_on_503: bool = False) -> Outcome:
    """The outcome of a whole answer with this status.

    A redirect is never followed, so 3xx is for a person. Anything that is no final status of HTTP proves nothing.
    """
    if 200 <= status < 300:
        return Outcome.DONE
    if status == 429:
        return Outcome.RATE_LIMITED
    if status in (401, 403):
        return Outcome.FORBIDDEN
    if status == 410:
        return Outcome.GONE
    if status == 503 and unsent_on_503:
        return Outcome.UNSENT
    if 300 <= status < 500 and status not in _UNKNOWN_4XX:
        return Outcome.REJECTED
    return Outcome.UNKNOWN


def retry_after_s(value: str | None, date_header: str | None, now_s: float) -> float | None:
    """Seconds of a Retry-After header, in either form of RFC 9110 10.2.3; none where it is absent or garbage.

    A date is counted from the answer's own Date where it has one: the two then come from one clock. Never negative.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(int(text[:12]))
    at_s = _epoch_s(text)
    if at_s is None:
        return None
    from_s = _epoch_s(date_header) if date_header else None
    return max(0.0, at_s - (now_s if from_s is None else from_s))


def one_line(text: str, secret: str | None = None) -> str:
    """Foreign text made fit for a detail: one line, no control characters, short, and without the secret in it."""
    if secret:
        text = text.replace(secret, "***")
    return "".join(c if c.isprintable() else " " for c in text[:_DETAIL_CHARACTERS]).strip()


def _epoch_s(text: str) -> float | None:
    try:
        at = parsedate_to_datetime(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
