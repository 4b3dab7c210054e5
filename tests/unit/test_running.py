"""Long-running commands hear every signal, however many come at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

_WAITS = """
from streams.entrypoints.running import Stopping
stopping = Stopping()
print("ready", flush=True)
while not stopping.wait(0.5):
    pass
assert stopping and stopping.wait(0) and stopping.wait(0)
print("stopped", flush=True)
input()
"""


def test_signals_that_come_while_one_is_being_noted_do_not_hang_the_process() -> None:
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", _WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            end = time.monotonic() + 0.2
            while time.monotonic() < end:
                os.kill(process.pid, signal.SIGTERM)
                os.kill(process.pid, signal.SIGINT)
            out, _ = process.communicate("\n", timeout=20)
            assert out == "stopped\n"
            assert process.returncode == 0
