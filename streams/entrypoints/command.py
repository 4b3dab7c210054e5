"""Runs a `townclock` command as a process of its own, to its end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from streams.adapters.embedded.process import clean_environment
from streams.domain.errors import BrokenPromise

_TIMEOUT_S = 180.0


def run_townclock(*arguments: str, environment: Mapping[str, str], folder: Path) -> str:
    """Its stdout. Raises BrokenPromise with what it said if it fails."""
    done = subprocess.run(  # noqa: S603 - our own program, no shell
        [sys.executable, "-m", "streams", *arguments],
        env=clean_environment(**environment),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise BrokenPromise(f"townclock {' '.join(arguments[:3])} … failed with status {done.returncode}: {said}")
    return done.stdout
