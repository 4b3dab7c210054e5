"""The machine a benchmark ran on, as far as its figures depend on it."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

from streams.adapters.embedded.jars import read_lock
from streams.adapters.postgres.base import connect

_GIB = 1 << 30


def describe(dsn: str, load_at_start: float) -> dict[str, object]:
    """Processor, memory, versions of what ran, and how busy the machine was before anything was started."""
    with connect(dsn, "public", "benchmark") as connection:
        asked = "SELECT current_setting('server_version'), current_setting('fsync')"
        postgres, fsync = connection.execute(asked).fetchone() or ("?", "?")
    return {
        **_hardware(),
        "kafka": next(jar.version for jar in read_lock() if jar.artifact == "kafka-server"),
        "postgres": str(postgres).split()[0],
        "postgres_fsync": fsync,
        "load_1m_at_start": round(load_at_start, 2),
    }


def host(load_at_start: float) -> dict[str, object]:
    """The same where no service was started."""
    return {**_hardware(), "numpy": version("numpy"), "load_1m_at_start": round(load_at_start, 2)}


def _hardware() -> dict[str, object]:
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }


def load_1m() -> float:
    """How many processes ran or wanted to, averaged over the last minute."""
    return os.getloadavg()[0]


def cores() -> int:
    """Those that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's own name where the system tells it."""
    if cpuinfo.is_file():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Model"):
                return value.strip()
    return platform.processor() or platform.machine()


def cpu_s(pid: int) -> float | None:
    """Processor time a process has used, all its threads; none where the system has no /proc, or it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # from the third on: a name in brackets may hold anything
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
