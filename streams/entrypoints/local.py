"""The settings file of an installation that runs on this machine, over the embedded broker and database."""

from __future__ import annotations

import re
from pathlib import Path

from streams.adapters.embedded.folder import write_atomically
from streams.adapters.embedded.services import EmbeddedServices

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


def write_settings(services: EmbeddedServices) -> Path:
    """`townclock.toml` in the services' folder, saying where they are now; what else it says is kept."""
    path = services.data_dir / SETTINGS_FILE
    if path.exists():
        text = path.read_text(encoding="utf-8")
        text = _replace(text, "bootstrap_servers", services.bootstrap_servers)
        text = _replace(text, "dsn", services.dsn)
    else:
        text = _TEMPLATE.format(
            bootstrap_servers=services.bootstrap_servers,
            dsn=services.dsn,
            deliveries=services.data_dir / "deliveries.jsonl",
        )
    write_atomically(path, text, mode=0o600)
    return path


def _replace(text: str, name: str, value: str) -> str:
    return re.sub(rf'^{name} = ".*"$', lambda _: f'{name} = "{value}"', text, count=1, flags=re.MULTILINE)
