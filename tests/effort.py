"""How many examples property tests try: TOWNCLOCK_PROOF_FACTOR times as many in `make proof`."""

from __future__ import annotations

import os

FACTOR = int(os.environ.get("TOWNCLOCK_PROOF_FACTOR", "1"))


def examples(count: int) -> int:
    """`count` in `make test`, many more in `make proof`."""
    return count * FACTOR
