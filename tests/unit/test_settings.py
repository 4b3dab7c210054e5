"""Settings: the file, the environment over it, and an error for everything that can't be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.domain.errors import InvalidInput
from streams.entrypoints.providers import build_providers
from streams.entrypoints.settings import duration_s, load

WHOLE = """
[kafka]
bootstrap_servers = "broker:9092"
topic_prefix = "x."
[postgres]
dsn = "postgresql://me@db/ledger"
[regions.eu]
[regions.us]
[providers.acme-mail]
adapter = "http"
url = "https://mail.example/send"
secret_env = "ACME_TOKEN"
idempotency_header = "Idempotency-Key"
idempotency_window = "24h"
quota = {rate_per_s = 120, burst = 12}
timeout_s = 10
[slo]
max_age = "10m"
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "townclock.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_documented_file_is_read_whole(tmp_path: Path) -> None:
    settings = load(written(tmp_path, WHOLE), {"ACME_TOKEN": "s3cret"})
    assert settings.kafka.bootstrap_servers == "broker:9092"
    assert settings.kafka.topic_prefix == "x."
    assert settings.postgres.dsn == "postgresql://me@db/ledger"
    assert settings.regions == {"eu", "us"}
    assert settings.slo_max_age_s == 600
    provider = settings.providers["acme-mail"]
    assert (provider.adapter, provider.rate_per_s, provider.burst) == ("http", 120.0, 12)
    assert provider.options == {
        "url": "https://mail.example/send",
        "secret": "s3cret",
        "idempotency_header": "Idempotency-Key",
        "idempotency_window_s": 86400,
        "timeout_s": 10,
    }
    assert "s3cret" not in repr(settings)


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    env = {
        "ACME_TOKEN": "t",
        "TOWNCLOCK_KAFKA_BOOTSTRAP_SERVERS": "other:1",
        "TOWNCLOCK_POSTGRES_SCHEMA": "mine",
        "TOWNCLOCK_SCENARIO": "trial",
    }
    settings = load(written(tmp_path, WHOLE), env)
    assert (settings.kafka.bootstrap_servers, settings.postgres.schema) == ("other:1", "mine")
    assert settings.scenario == "trial"
    assert settings.with_flags(bootstrap_servers="third:2", dsn=None).kafka.bootstrap_servers == "third:2"


def test_a_secret_may_stand_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n", encoding="utf-8")
    text = f'[providers.p]\nadapter = "http"\nsecret_file = "{tmp_path / "token"}"\n'
    assert load(written(tmp_path, text), {}).providers["p"].options["secret"] == "from-file"


def test_without_any_file_there_are_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {}).kafka.bootstrap_servers == "localhost:9092"


def test_the_settings_of_up_are_found_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".townclock" / "up"
    folder.mkdir(parents=True)
    (folder / "townclock.toml").write_text('[kafka]\nbootstrap_servers = "up:1"\n', encoding="utf-8")
    assert load(None, {}).kafka.bootstrap_servers == "up:1"
    (tmp_path / "townclock.toml").write_text('[kafka]\nbootstrap_servers = "own:1"\n', encoding="utf-8")
    assert load(None, {}).kafka.bootstrap_servers == "own:1"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kafka = 3", "kafka: this is a table; write [kafka]"),
        ("[kafka]\nbootstrap = 1", "kafka.bootstrap: there is no such setting; did you mean bootstrap_servers?"),
        ('[kafka]\ngroup_protocol = "next"', "kafka.group_protocol: 'next'; write one of consumer, classic"),
        ("[kaffka]\n", "kaffka: there is no such setting; did you mean kafka?"),
        ("[providers.a]\nurl = 1", "providers.a: a provider is a table with at least adapter"),
        ('[providers.a]\nadapter = "http"\nquota = 3', "providers.a.quota: write {rate_per_s = 120, burst = 12}"),
        *(
            (
                f'[providers.a]\nadapter = "http"\nquota = {{{quota}}}',
                "rate_per_s is a number from 0.000001 to 1,000,000",
            )
            for quota in (
                "rate_per_s = 0",
                "rate_per_s = nan",
                "rate_per_s = inf",
                "rate_per_s = 2e6",
                "rate_per_s = true",
            )
        ),
        (
            '[providers.a]\nadapter = "http"\nquota = {burst = 3_000_000_000}',
            "burst a whole number from 1 to 1,000,000",
        ),
        ('[slo]\nmax_age = "soon"', "slo.max_age: 'soon' is not a duration; write 90s, 15m, 6h or 2d"),
        ('[postgres]\nschema = "A-B"', "postgres.schema: 'A-B' is not a plain lower-case name"),
        ("[kafka", "not TOML"),
    ],
)
def test_what_can_not_be_meant_is_refused_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InvalidInput) as caught:
        load(path, {})
    assert said in str(caught.value)
    assert str(caught.value).startswith(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('secret_env = "NOPE"', "providers.a.secret_env: the environment has no NOPE; set it"),
        ('secret_file = "/no/such"', "providers.a.secret_file: /no/such can't be read: No such file"),
    ],
)
def test_only_who_delivers_needs_the_secret(tmp_path: Path, line: str, said: str) -> None:
    path = written(tmp_path, f'[providers.a]\nadapter = "http"\nurl = "https://mail.example/send"\n{line}')
    settings = load(path, {})
    with pytest.raises(InvalidInput) as caught:
        build_providers(settings)
    assert said in str(caught.value)
    assert str(caught.value).startswith(path)


def test_a_named_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="there is no such settings file"):
        load(str(tmp_path / "none.toml"), {})


def test_durations() -> None:
    assert [duration_s("x", text) for text in ("90s", "15m", "6h", "2d")] == [90, 900, 21600, 172800]
