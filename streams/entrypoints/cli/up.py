"""`townclock up`: everything on this machine, supervised, on one screen."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live

from streams.adapters.clock import SystemClock
from streams.adapters.embedded.services import EmbeddedServices
from streams.domain.errors import ServiceUnreachable
from streams.entrypoints import settings as settings_module
from streams.entrypoints.command import run_townclock
from streams.entrypoints.local import SETTINGS_FILE, write_settings
from streams.entrypoints.providers import build_providers
from streams.entrypoints.running import Stopping
from streams.entrypoints.screen import line, screen
from streams.entrypoints.settings import LOCAL_FOLDER
from streams.entrypoints.status import Status, StatusReader
from streams.entrypoints.supervise import Family, spine
from streams.pipeline.names import Names

_REFRESH_S = 1.0
_LINE_EVERY = 15


@click.command()
@click.option("--data", default=LOCAL_FOLDER, show_default=True, metavar="DIR", help="Where its data is kept.")
@click.option("--partitions", default=24, show_default=True, type=click.IntRange(1, 1000), help="At the first start.")
def up(data: str, partitions: int) -> None:
    """A broker, a database and every process on this machine, until Ctrl-C. Its data stays in DIR.

    Other commands find it by themselves when run from the same folder; from elsewhere: --config DIR/townclock.toml.
    """
    folder = Path(data).absolute()
    console = Console()
    stop = Stopping()
    services = EmbeddedServices(folder)
    _require_providers(folder / SETTINGS_FILE)
    console.print(f"starting the broker and the database in {folder}", highlight=False)
    services.start()
    try:
        _run(services, partitions, console, stop)
    finally:
        console.print("stopping", highlight=False)
        services.stop()


def _require_providers(path: Path) -> None:
    """Raises InvalidInput for a mistake in the settings before anything is started, not in a child's log after it."""
    if path.is_file():
        build_providers(settings_module.load(str(path)))


def _run(services: EmbeddedServices, partitions: int, console: Console, stop: Stopping) -> None:
    path = write_settings(services)
    settings = settings_module.load(str(path))
    logs = services.data_dir / "logs"
    logs.mkdir(exist_ok=True)
    secrets = {each.secret_env for each in settings.providers.values() if each.secret_env is not None}
    environment = {"TOWNCLOCK_CONFIG": str(path), **{name: os.environ[name] for name in secrets if name in os.environ}}
    for command in (("topics", "create", "--partitions", str(partitions)), ("db", "migrate")):
        console.print(run_townclock(*command, environment=environment, folder=logs).strip(), highlight=False)
    clock = SystemClock()
    said: list[str] = []
    family = Family(logs, environment, clock, said.append)
    reader = StatusReader(
        settings.kafka.bootstrap_servers,
        Names(settings.kafka.topic_prefix),
        settings.postgres.dsn,
        settings.postgres.schema,
        partitions,
        clock,
    )
    try:
        family.start(spine(sorted(settings.regions)))
        hint = f"settings {path}   logs {logs}   Ctrl-C stops"
        _show(services, console, family, reader, said, clock, hint, stop)
    finally:
        family.stop()
        reader.close()


def _show(
    services: EmbeddedServices,
    console: Console,
    family: Family,
    reader: StatusReader,
    said: list[str],
    clock: SystemClock,
    hint: str,
    stop: Stopping,
) -> None:
    if not sys.stdout.isatty():
        _plain(services, console, family, reader, said, stop)
        return
    with Live(console=console, auto_refresh=False, screen=False) as live:
        _each_second(
            services,
            family,
            stop,
            lambda: live.update(screen(family.children, reader.read(), said, clock.boot_s(), hint), refresh=True),
        )


def _plain(
    services: EmbeddedServices, console: Console, family: Family, reader: StatusReader, said: list[str], stop: Stopping
) -> None:
    told = 0
    rounds = 0

    def tell() -> None:
        nonlocal told, rounds
        for message in said[told:]:
            console.print(message, highlight=False)
        told = len(said)
        if rounds % _LINE_EVERY == 0:
            status: Status = reader.read()
            console.print(line(family.children, status), highlight=False)
        rounds += 1

    _each_second(services, family, stop, tell)


def _each_second(services: EmbeddedServices, family: Family, stop: Stopping, show: Callable[[], None]) -> None:
    while not stop.wait(_REFRESH_S):
        if (failure := services.failure()) is not None:
            raise ServiceUnreachable(f"{failure}\nEverything else was stopped; start again: nothing is lost")
        family.watch()
        show()
