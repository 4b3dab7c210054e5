"""A provider's table in the settings: what is refused, with which words; and the body it renders."""

from __future__ import annotations

import json

import pytest

from streams.adapters.http.log import LogProvider
from streams.adapters.http.provider import HttpProvider
from streams.domain.errors import InvalidInput
from streams.pipeline.provider import ProviderTraits, render_json
from tests.provider_support import a_fire

GOOD: dict[str, object] = {"url": "https://mail.example/send"}


def test_a_full_table() -> None:
    options = {
        **GOOD,
        "secret": "s",
        "idempotency_header": "Idempotency-Key",
        "idempotency_window_s": 60,
        "timeout_s": 3,
    }
    provider = HttpProvider.from_options("mail", options)
    assert provider.traits == ProviderTraits(True, 60.0, False, 3.0)
    assert repr(provider) == "HttpProvider('mail', host='mail.example')"


def test_without_a_header_no_key_is_relied_on() -> None:
    assert HttpProvider.from_options("mail", GOOD).traits == ProviderTraits(False, None, False, 10.0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"url": None}, "providers.mail.url: is missing"),
        ({"url": "ftp://x/"}, "providers.mail.url: this is no http or https address"),
        ({"url": "https://user:pw@mail.example/"}, "without user or password"),
        ({"url": "https:///send"}, "providers.mail.url: this is no http"),
        ({"url": "http://[::1"}, "providers.mail.url: this is no http"),
        ({"url": 7}, "providers.mail.url: this is a text in quotes"),
        (
            {"tiemout_s": 3},
            "providers.mail.tiemout_s: there is no such setting for this adapter; did you mean timeout_s?",
        ),
        ({"timeout_s": 0}, "providers.mail.timeout_s: 0 is not a number of seconds"),
        ({"timeout_s": True}, "providers.mail.timeout_s: True is not a number of seconds"),
        ({"timeout_s": 601}, "up to 600"),
        ({"secret": "two words"}, "providers.mail.secret: only printable ASCII"),
        ({"secret": "line\r\nX-Evil: 1"}, "providers.mail.secret: only printable ASCII"),
        ({"idempotency_window_s": 60}, "providers.mail.idempotency_window_s: also needs idempotency_header"),
        ({"unsent_on_503": "yes"}, "providers.mail.unsent_on_503: 'yes'; write true or false"),
        ({"connections": 0}, "providers.mail.connections: 0 is not a count"),
    ],
)
def test_wrong_options_say_what_to_write(changes: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HttpProvider.from_options("mail", {**GOOD, **changes})
    assert words in str(caught.value)
    assert "two words" not in str(caught.value)


def test_log_options() -> None:
    assert LogProvider.from_options("log", {}).traits == ProviderTraits(False, None, False, 10.0)
    with pytest.raises(InvalidInput, match=r"providers\.log\.pth: there is no such setting .* did you mean path"):
        LogProvider.from_options("log", {"pth": "x"})


def test_the_body_is_canonical_json_and_keeps_the_payload_as_it_stands() -> None:
    body = render_json(a_fire(payload='{"amount":1e2,"große":[1.0]}'))
    assert body == (
        b'{"account":null,"instant":"2027-03-28T01:00:00Z",'
        b'"key":"14483d975e5165b982df64cd1064a19b258083334fc46d64da962a86cb358048","nominal":"2027-03-28T02:30",'
        b'"payload":{"amount":1e2,"gro\xc3\x9fe":[1.0]},"schedule_id":"berlin-payroll","tenant":"acme",'
        b'"to":"someone@example.test","zone":"Europe/Berlin"}'
    )
    assert list(json.loads(body)) == sorted(json.loads(body))
