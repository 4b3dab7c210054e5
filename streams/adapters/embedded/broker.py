"""Apache Kafka on this machine: one KRaft node on loopback, its data kept in a folder, its Java from a wheel.

The start, in order: lock the folder, check the disk, fetch the jars, format once, choose ports, write
`server.properties`, start under a guard, and wait until an admin call answers with this folder's own cluster id.
"""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from string import Template

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from streams.adapters.clock import Clock, SystemClock
from streams.adapters.embedded.errors import EmbeddedError, PortTaken
from streams.adapters.embedded.folder import (
    LOOPBACK,
    FolderLock,
    choose_port,
    explained,
    make_folder,
    require_free_space,
    sync_folder,
    write_atomically,
)
from streams.adapters.embedded.jars import ensure_jars
from streams.adapters.embedded.java import CONFIG, Java, escaped
from streams.adapters.embedded.process import GuardedProcess
from streams.domain.errors import InvalidInput, ServiceUnreachable

_NEEDED_BYTES = 512 << 20
_GRACE_S = 30.0
_POLL_S = 0.1
_PROBE_S = 2.0
_PORT_TRIES = 3
_ADDRESS_IN_USE = ("Address already in use", "BindException")
TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"
GET_OFFSET_SHELL = "org.apache.kafka.tools.GetOffsetShell"
CONSUMER_GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class EmbeddedBroker:
    """One broker over one data folder. Not safe to drive from several threads at once.

    Ends with the process that started it, however that ends. What was acknowledged survives `kill` and a restart.
    """

    def __init__(
        self,
        data_dir: Path,
        port: int | None = None,
        controller_port: int | None = None,
        *,
        heap_mb: int = 256,
        settings: Mapping[str, str] | None = None,
        start_timeout_s: float = 120.0,
        needed_bytes: int = _NEEDED_BYTES,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is touched before `start`. `settings` are added to the broker's properties and win over them.

        Ports not named are the ones of the last start where they are free, else free ones.
        """
        self.data_dir = Path(data_dir).absolute()
        self.log_path = self.data_dir / "kafka.log"
        self.cluster_id = ""
        self._wanted_ports = (port, controller_port)
        self._ports: tuple[int, int] | None = None
        self._heap_mb = heap_mb
        self._settings = dict(settings or {})
        self._start_timeout_s = start_timeout_s
        self._needed_bytes = needed_bytes
        self._clock = clock or SystemClock()
        self._lock = FolderLock(self.data_dir, "Apache Kafka")
        self._process: GuardedProcess | None = None
        self._java: Java | None = None

    @property
    def pid(self) -> int | None:
        """The Java process, None unless it runs."""
        return self._process.pid if self._process and self._process.exit_status is None else None

    @property
    def is_running(self) -> bool:
        return self.pid is not None

    @property
    def bootstrap_servers(self) -> str:
        if self._ports is None:
            raise EmbeddedError("the broker has not been started")
        return f"{LOOPBACK}:{self._ports[0]}"

    def start(self) -> EmbeddedBroker:
        """Return when the broker answers.

        Raises `FolderInUse`, `NoSpace`, `PortTaken`, `DownloadFailed`, `InvalidInput` for a folder Kafka can't name,
        and `ServiceUnreachable` with the end of its log if it does not come up in time.
        """
        if self.is_running:
            return self
        _require_plain(self.data_dir)
        make_folder(self.data_dir)
        self._lock.acquire()
        try:
            with explained(self.data_dir, "Apache Kafka"):
                require_free_space(self.data_dir, self._needed_bytes, "Apache Kafka")
                self._java = Java(ensure_jars(), self.data_dir)
                self.cluster_id = self._format_once()
                self._run()
        except BaseException:
            self._lock.release()
            raise
        return self

    def stop(self) -> None:
        """End it in good order; killed if that takes longer than 30 s."""
        if self._process is not None:
            self._process.stop()
            self._process = None
        self._lock.release()

    def kill(self) -> None:
        """SIGKILL, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process = None
        self._lock.release()

    def restart(self) -> None:
        """Stop and start on the same ports, so that clients find it again."""
        self.stop()
        self.start()

    def __enter__(self) -> EmbeddedBroker:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def log_tail(self, lines: int = 15) -> str:
        """The end of what the broker wrote."""
        return self._process.log_tail(lines) if self._process else ""

    def run_tool(
        self, tool: str, *arguments: str, timeout_s: float = 90.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's own command-line tools against this broker, for instance `TOPIC_COMMAND, "--list"`.

        `--bootstrap-server` is added. Raises `EmbeddedError` with its output if it fails and `check` is set.
        """
        return self._installed_java.run(
            tool, "--bootstrap-server", self.bootstrap_servers, *arguments, timeout_s=timeout_s, check=check
        )

    @property
    def _installed_java(self) -> Java:
        if self._java is None:
            raise EmbeddedError("the broker has not been started")
        return self._java

    def _format_once(self) -> str:
        """Give the folder its cluster id at the first start; the id it has."""
        java = self._installed_java
        logs = self.data_dir / "logs"
        if not logs.exists():
            temporary = self.data_dir / "logs.tmp"
            shutil.rmtree(temporary, ignore_errors=True)
            cluster_id = base64.urlsafe_b64encode(b"\0" + secrets.token_bytes(15)).decode().rstrip("=")
            config = self.data_dir / "format.properties"
            write_atomically(config, self._properties((1, 2), temporary))
            java.run("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(config), timeout_s=120.0)
            config.unlink()
            temporary.rename(logs)
            sync_folder(self.data_dir)
        for line in (logs / "meta.properties").read_text(encoding="utf-8").splitlines():
            if line.startswith("cluster.id="):
                return line.partition("=")[2].strip()
        raise EmbeddedError(f"{logs}/meta.properties names no cluster id; remove {logs} to begin anew without its data")

    def _properties(self, ports: tuple[int, int], logs: Path) -> str:
        template = Template((CONFIG / "server.properties").read_text(encoding="utf-8"))
        text = template.substitute(port=ports[0], controller_port=ports[1], log_dirs=escaped(str(logs)))
        return text + "".join(f"{name}={escaped(value)}\n" for name, value in self._settings.items())

    def _choose_ports(self) -> tuple[int, int]:
        """Checked before the start: Kafka needs 14 s to say that a port is taken."""
        remembered = self._ports or _read_ports(self.data_dir / "ports.json")
        client, controller = self._wanted_ports
        first = choose_port(client, remembered[0], purpose="Apache Kafka", taken=[controller] if controller else ())
        second = choose_port(controller, remembered[1], purpose="Apache Kafka's controller", taken=[first])
        if first == second:
            raise InvalidInput(f"port {first} was asked for both Apache Kafka and its controller; name two ports")
        return first, second

    def _run(self) -> None:
        for attempt in range(_PORT_TRIES):
            self._ports = self._choose_ports()
            write_atomically(self.data_dir / "server.properties", self._properties(self._ports, self.data_dir / "logs"))
            process = self._launch()
            try:
                self._await_answer(process)
            except _DiedWhileStarting as death:
                self._process = None
                if any(sign in death.tail for sign in _ADDRESS_IN_USE) and attempt + 1 < _PORT_TRIES:
                    self._ports = None  # somebody was faster: other ports, unless these were asked for
                    continue
                raise _explained(death, self.log_path) from None
            except BaseException:
                process.kill()
                self._process = None
                raise
            write_atomically(self.data_dir / "ports.json", json.dumps(self._ports))
            return

    def _launch(self) -> GuardedProcess:
        java = self._installed_java
        heap = f"{self._heap_mb}m"
        self._process = GuardedProcess(
            java.command(
                "kafka.Kafka",
                str(self.data_dir / "server.properties"),
                options=[f"-Xms{heap}", f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError"],
                logging="log4j2.properties",
            ),
            environment=java.environment,
            folder=self.data_dir,
            log_path=self.log_path,
            stop_signal=signal.SIGTERM,
            grace_s=_GRACE_S,
            inherited_fds=[self._lock.fd],
        )
        return self._process

    def _await_answer(self, process: GuardedProcess) -> None:
        """Poll until an admin call answers; `_DiedWhileStarting` as soon as the process has."""
        deadline_s = self._clock.boot_s() + self._start_timeout_s
        while self._clock.boot_s() < deadline_s:
            answered = self._ask_cluster_id()
            if process.wait(0.0 if answered else _POLL_S):
                raise _DiedWhileStarting(process.exit_status or 0, process.log_tail())
            if answered == self.cluster_id:
                return
            if answered is not None:
                raise EmbeddedError(
                    f"another broker (cluster {answered}) answers on {self.bootstrap_servers}; name another port"
                )
        raise ServiceUnreachable(
            f"Apache Kafka did not answer on {self.bootstrap_servers} within {self._start_timeout_s:.0f} s; "
            f"its log is {self.log_path} and ends:\n{process.log_tail()}"
        )

    def _ask_cluster_id(self) -> str | None:
        """By an admin call, once something listens there; None if it does not answer."""
        host, _, port = self.bootstrap_servers.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=_PROBE_S).close()
            admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
            found = admin.list_topics(timeout=_PROBE_S).cluster_id
        except (OSError, KafkaException):
            return None
        return str(found) if found else None


class _DiedWhileStarting(Exception):
    """The process ended before it answered."""

    def __init__(self, status: int, tail: str) -> None:
        super().__init__(status)
        self.status = status
        self.tail = tail


def _explained(death: _DiedWhileStarting, log_path: Path) -> EmbeddedError:
    if any(sign in death.tail for sign in _ADDRESS_IN_USE):
        return PortTaken(f"a port asked for Apache Kafka was taken while it started; name another (log: {log_path})")
    return EmbeddedError(
        f"Apache Kafka ended while starting (status {death.status}); its log is {log_path} and ends:\n{death.tail}"
    )


def _read_ports(path: Path) -> tuple[int | None, int | None]:
    try:
        first, second = json.loads(path.read_text(encoding="utf-8"))
        return int(first), int(second)
    except (OSError, ValueError, TypeError):
        return None, None


def _require_plain(folder: Path) -> None:
    if any(character in str(folder) for character in ',\n\r"'):
        raise InvalidInput(f"Kafka can't keep data in {str(folder)!r}: a comma, quote or line break is in its name")
