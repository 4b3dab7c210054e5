"""A small Maven repository over HTTP that can be told to misbehave, and jars for it."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Repository:
    """Serves `files` by name. `answer` may replace the bytes of a request, or return None for a 503."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.requests: Counter[str] = Counter()
        self.answer: Callable[[str, bytes], bytes | None] = lambda _name, content: content
        self.cut_off: set[str] = set()
        self.url = ""

    def lock_file(self, folder: Path) -> Path:
        """The lock file that pins exactly these files."""
        path = folder / "jars.lock"
        lines = ["# pinned"]
        for name, content in self.files.items():
            artifact, _, version = name.removesuffix(".jar").rpartition("-")
            lines.append(f"{hashlib.sha256(content).hexdigest()}  {len(content)}  org.example:{artifact}:{version}")
        path.write_text("\n".join(lines) + "\n")
        return path


def some_jars(count: int = 5, size_bytes: int = 30_000) -> dict[str, bytes]:
    return {f"part{n}-1.{n}.jar": hashlib.sha256(str(n).encode()).digest() * (size_bytes // 32) for n in range(count)}


@contextmanager
def serving(repository: Repository) -> Iterator[Repository]:
    """The repository on a free port."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            content = repository.files.get(name)
            if content is None:  # checksum files, for instance
                self.send_error(404)
                return
            with lock:
                repository.requests[name] += 1
            sent = repository.answer(name, content)
            if sent is None:
                self.send_error(503)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(content) if name in repository.cut_off else len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_address[1]}/maven2"
    try:
        yield repository
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
