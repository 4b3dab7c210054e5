"""A whole installation on this machine: embedded broker and database in one folder, and the settings naming them."""

from __future__ import annotations

import re
from pathlib import Path

from streams.adapters.embedded.broker import EmbeddedBroker
from streams.adapters.embedded.database import EmbeddedDatabase
from streams.adapters.embedded.folder import write_atomically

SETTINGS_FILE = "townclock.toml"
_TEMPLATE = """\
# Written by `townclock up` for the services it runs in this folder. Regions and providers are yours to change:
# stop `up`, edit, start it again. It only rewrites the two lines that say where its services are.
[kafka]
bootstrap_servers = "{bootstrap_servers}"

[postgres]
dsn = "{dsn}"

[regions.eu]
[regions.us]

# Writes each delivery as a line of JSON.
[providers.log]
adapter = "log"
path = "{deliveries}"
quota = {{rate_per_s = 1000, burst = 100}}

[slo]
max_age = "10m"
"""


class LocalServices:
    """The broker and the database under one folder; started together, stopped together."""

    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        """Nothing is touched before `start`. Without `fsync` a power cut may lose data: for demonstrations only."""
        self.folder = folder.absolute()
        self.broker = EmbeddedBroker(self.folder / "kafka")
        self.database = EmbeddedDatabase(
            self.folder / "postgres", settings=None if fsync else {"fsync": "off", "full_page_writes": "off"}
        )

    def start(self) -> None:
        """Return when both answer. Raises what `EmbeddedBroker.start` and `EmbeddedDatabase.start` raise."""
        self.database.start()
        try:
            self.broker.start()
        except BaseException:
            self.database.stop()
            raise

    def stop(self) -> None:
        """Both, in good order."""
        self.broker.stop()
        self.database.stop()

    def write_settings(self) -> Path:
        """`townclock.toml` in the folder, saying where the services are now; what else it says is kept."""
        path = self.folder / SETTINGS_FILE
        if path.exists():
            text = path.read_text(encoding="utf-8")
            text = _replace(text, "bootstrap_servers", self.broker.bootstrap_servers)
            text = _replace(text, "dsn", self.database.dsn)
        else:
            text = _TEMPLATE.format(
                bootstrap_servers=self.broker.bootstrap_servers,
                dsn=self.database.dsn,
                deliveries=self.folder / "deliveries.jsonl",
            )
        write_atomically(path, text, mode=0o600)
        return path


def _replace(text: str, name: str, value: str) -> str:
    return re.sub(rf'^{name} = ".*"$', lambda _: f'{name} = "{value}"', text, count=1, flags=re.MULTILINE)
