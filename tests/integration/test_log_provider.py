"""LogProvider on real files: whole lines whoever writes, on a full disk too, and stdout."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from streams.adapters.http.log import LogProvider
from streams.domain.errors import InvalidInput
from streams.domain.outcome import Outcome
from tests.provider_support import a_request


def test_two_writers_share_a_file_without_mixing(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "log.jsonl"
        writers = [LogProvider(name, path=str(path)) for name in ("a", "b")]
        for writer in writers:
            await writer.start()
        bodies = [
            b'{"long":"' + b"x" * 20_000 + b'"}',
            b"not\njson",
            b"[1,\n2]",
            b'{"a":"\xff"}',
            "{}".encode("utf-16"),
        ]
        sends = [w.send(a_request(f"{w.name}{n}", bodies[n % 5])) for n in range(100) for w in writers]
        assert {r.outcome for r in await asyncio.gather(*sends)} == {Outcome.DONE}
        for writer in writers:
            await writer.close()
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        assert sorted(line["key"] for line in lines) == sorted(f"{w.name}{n}" for n in range(100) for w in writers)
        assert set(lines[0]) == {"at", "key", "idempotency_key", "to", "body"}

    asyncio.run(run())


def test_a_full_disk_is_unsent() -> None:
    async def run() -> None:
        provider = LogProvider("log", path="/dev/full")
        await provider.start()
        result = await provider.send(a_request("k"))
        assert (result.outcome, result.detail) == (Outcome.UNSENT, "/dev/full: No space left on device")
        await provider.close()

    asyncio.run(run())


def test_half_a_batch_on_disk_is_unknown_and_the_next_line_is_whole(tmp_path: Path) -> None:
    """A limit on the file's size stops a write in its middle, as a full disk does."""
    script = """
import asyncio, json, resource, signal, sys
from streams.adapters.http.log import LogProvider
from tests.provider_support import a_request
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
async def run():
    provider = LogProvider("log", path=sys.argv[1])
    await provider.start()
    resource.setrlimit(resource.RLIMIT_FSIZE, (50, resource.RLIM_INFINITY))
    results = [await provider.send(a_request("half")), await provider.send(a_request("none"))]
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    results.append(await provider.send(a_request("whole")))
    await provider.close()
    print(json.dumps([r.outcome for r in results]))
asyncio.run(run())
"""
    path = tmp_path / "log.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], check=False, capture_output=True, text=True, timeout=60
    )
    assert json.loads(done.stdout) == ["unknown", "unsent", "done"], done.stderr
    torn, whole = path.read_text().splitlines()
    assert len(torn) == 50
    assert json.loads(whole)["key"] == "whole"


def test_stdout_is_the_default() -> None:
    script = """
import asyncio
from streams.adapters.http.log import LogProvider
from tests.provider_support import a_request
async def run():
    provider = LogProvider.from_options("log", {})
    await provider.start()
    assert (await provider.send(a_request("k"))).outcome == "done"
    await provider.close()
asyncio.run(run())
"""
    done = subprocess.run([sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["key"] == "k", done.stderr


def test_a_folder_that_does_not_exist_says_so(tmp_path: Path) -> None:
    provider = LogProvider("audit", path=str(tmp_path / "no" / "log"))
    with pytest.raises(
        InvalidInput, match=r"providers\.audit\.path: .*No such file or directory; name a file in a folder"
    ):
        asyncio.run(provider.start())
