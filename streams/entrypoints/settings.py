"""Settings: `townclock.toml`, then `TOWNCLOCK_*` from the environment, then flags."""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from streams.domain.errors import InvalidInput

DEFAULT_FILE = "townclock.toml"
_PROTOCOLS = ("consumer", "classic")
LOCAL_FOLDER = ".townclock/up"
_DURATION = re.compile(r"(\d+)(s|m|h|d)")
_MOST = 1_000_000  # of a quota's rate and burst: see domain/budget.py
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the broker is, and what every topic's and group's name begins with."""

    bootstrap_servers: str = "localhost:9092"
    topic_prefix: str = ""
    group_protocol: str = "consumer"


@dataclass(frozen=True, slots=True)
class PostgresSettings:
    """Where the database is, and the schema that holds every table of this installation."""

    dsn: str = "postgresql://townclock@localhost/townclock"
    schema: str = "townclock"


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """A provider: its adapter, its quota, the adapter's own options (never shown: a resolved secret is among them).

    `secret_env` is the variable its secret was looked for in. `lacks` says what is to be done where its secret can't be
    had: only who delivers needs it, so it is no error of the settings.
    """

    name: str
    adapter: str
    rate_per_s: float
    burst: int
    options: Mapping[str, object] = field(repr=False)
    secret_env: str | None = None
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a process is told. `scenario` names the scenario whose ticks this installation takes; none is live."""

    kafka: KafkaSettings = KafkaSettings()
    postgres: PostgresSettings = PostgresSettings()
    regions: frozenset[str] = frozenset()
    providers: Mapping[str, ProviderSettings] = field(default_factory=dict)
    slo_max_age_s: int = 600
    scenario: str | None = None
    source: str = "built-in defaults"

    def with_flags(self, **kafka_or_postgres: str | None) -> Settings:
        """These settings with flags laid over them; a flag that is none changes nothing."""
        kafka = {k: v for k, v in kafka_or_postgres.items() if v is not None and k in KafkaSettings.__slots__}
        postgres = {k: v for k, v in kafka_or_postgres.items() if v is not None and k in PostgresSettings.__slots__}
        return replace(self, kafka=replace(self.kafka, **kafka), postgres=replace(self.postgres, **postgres))


def load(path: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Settings of `path` (or TOWNCLOCK_CONFIG, ./townclock.toml, or `townclock up`'s) under the environment.

    Raises InvalidInput naming the file, the key, what is wrong and what is allowed.
    """
    env = os.environ if environ is None else environ
    named = path or env.get("TOWNCLOCK_CONFIG")
    local = Path(LOCAL_FOLDER) / DEFAULT_FILE
    file = Path(named or (local if local.is_file() and not Path(DEFAULT_FILE).is_file() else DEFAULT_FILE))
    if not file.is_file():
        if named:
            raise InvalidInput(f"{file}: there is no such settings file; write one, or leave out --config")
        return _over_environment({}, env, "the environment and built-in defaults")
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file}: not TOML: {error}") from None
    except OSError as error:
        raise InvalidInput(f"{file}: can't be read: {error.strerror}") from None
    return _over_environment(raw, env, str(file))


def _over_environment(raw: dict[str, object], env: Mapping[str, str], source: str) -> Settings:
    _known(source, "", raw, {"kafka", "postgres", "regions", "providers", "slo", "scenario"})
    kafka = _table(source, raw, "kafka", {"bootstrap_servers", "topic_prefix", "group_protocol"})
    postgres = _table(source, raw, "postgres", {"dsn", "schema"})
    slo = _table(source, raw, "slo", {"max_age"})
    for table, names in ((kafka, KafkaSettings.__slots__), (postgres, PostgresSettings.__slots__)):
        for name in names:
            prefix = "KAFKA" if table is kafka else "POSTGRES"
            if (value := env.get(f"TOWNCLOCK_{prefix}_{name.upper()}")) is not None:
                table[name] = value
    if (protocol := kafka.get("group_protocol", "consumer")) not in _PROTOCOLS:
        raise InvalidInput(f"{source}: kafka.group_protocol: {protocol!r}; write one of {', '.join(_PROTOCOLS)}")
    regions = _table(source, raw, "regions", None)
    providers = {
        name: _provider(source, name, table, env) for name, table in _table(source, raw, "providers", None).items()
    }
    schema = str(postgres.get("schema", "townclock"))
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", schema):
        raise InvalidInput(f"{source}: postgres.schema: {schema!r} is not a plain lower-case name, [a-z_][a-z0-9_]*")
    scenario = env.get("TOWNCLOCK_SCENARIO") or raw.get("scenario")
    return Settings(
        kafka=KafkaSettings(**{k: str(v) for k, v in kafka.items()}),
        postgres=PostgresSettings(**{k: str(v) for k, v in postgres.items()}),
        regions=frozenset(regions),
        providers=providers,
        slo_max_age_s=duration_s(f"{source}: slo.max_age", slo.get("max_age", "10m")),
        scenario=None if scenario is None else str(scenario),
        source=source,
    )


def _provider(source: str, name: str, raw: object, env: Mapping[str, str]) -> ProviderSettings:
    where = f"{source}: providers.{name}"
    if not isinstance(raw, dict) or not isinstance(raw.get("adapter"), str):
        raise InvalidInput(f'{where}: a provider is a table with at least adapter = "http" (or log, sandbox, …)')
    options = dict(raw)
    adapter = options.pop("adapter")
    quota = options.pop("quota", {"rate_per_s": 100, "burst": 10})
    if not isinstance(quota, dict) or set(quota) - {"rate_per_s", "burst"}:
        raise InvalidInput(f"{where}.quota: write {{rate_per_s = 120, burst = 12}}")
    rate, burst = quota.get("rate_per_s", 100), quota.get("burst", 10)
    if not _is_quota(rate, burst):
        allowed = f"rate_per_s is a number from 0.000001 to {_MOST:,} and burst a whole number from 1 to {_MOST:,}"
        raise InvalidInput(f"{where}.quota: {quota!r}; {allowed}")
    secret_env, lacks = options.pop("secret_env", None), None
    if secret_env is not None:
        if (secret := env.get(str(secret_env))) is not None:
            options["secret"] = secret
        else:
            lacks = f"{where}.secret_env: the environment has no {secret_env}; set it, or remove the line"
    if (secret_file := options.pop("secret_file", None)) is not None:
        try:
            options["secret"] = Path(str(secret_file)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "not UTF-8 text"
            lacks = f"{where}.secret_file: {secret_file} can't be read: {problem}"
    for key in ("idempotency_window",):
        if key in options:
            options[f"{key}_s"] = duration_s(f"{where}.{key}", options.pop(key))
    return ProviderSettings(
        name=name,
        adapter=adapter,
        rate_per_s=float(rate),
        burst=burst,
        options=options,
        secret_env=None if secret_env is None else str(secret_env),
        lacks=lacks,
    )


def _is_quota(rate: object, burst: object) -> bool:
    if isinstance(rate, bool) or isinstance(burst, bool):
        return False
    good_rate = isinstance(rate, int | float) and 1e-6 <= rate <= _MOST
    return good_rate and isinstance(burst, int) and 1 <= burst <= _MOST


def duration_s(where: str, value: object) -> int:
    """Seconds of `90s`, `15m`, `6h`, `2d`."""
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise InvalidInput(f"{where}: {value!r} is not a duration; write 90s, 15m, 6h or 2d")
    return int(found[1]) * _UNIT_S[found[2]]


def _table(source: str, raw: dict[str, object], name: str, allowed: set[str] | None) -> dict[str, object]:
    table = raw.get(name, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{source}: {name}: this is a table; write [{name}]")
    if allowed is not None:
        _known(source, f"{name}.", table, allowed)
    return dict(cast("dict[str, object]", table))


def _known(source: str, prefix: str, table: Mapping[str, object], allowed: set[str]) -> None:
    for key in table:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"allowed: {', '.join(sorted(allowed))}"
            raise InvalidInput(f"{source}: {prefix}{key}: there is no such setting; {hint}")
