"""The documentation is true where a program can tell: generated parts, examples, links."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from streams.adapters.codec import decode
from streams.adapters.kafka.occurrence_emitter import headers_of
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.change import Change, ChangeKind
from streams.domain.document import DocumentContext
from streams.domain.occurrence import Ended, TickSource
from streams.domain.registration import Accepted, register
from streams.entrypoints.cli import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.glob("*.md")])
GENERATED = {"delivery.md": "draw_states.py", "schemas.md": "list_schemas.py"}
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)


def run(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.parametrize("page", GENERATED)
def test_generated_parts_are_what_the_code_says(page: str) -> None:
    done = run(str(DOCS / GENERATED[page]), "--check")
    assert done.returncode == 0, f"{done.stderr}\nrun: python docs/{GENERATED[page]}"


@pytest.mark.parametrize("page", GENERATED)
def test_a_changed_part_is_seen(page: str, tmp_path: Path) -> None:
    changed = tmp_path / page
    text = (DOCS / page).read_text("utf-8")
    changed.write_text(re.sub(r"^(<!-- begin [a-z]+ -->\n)(.*)$", r"\1\2 x", text, count=1, flags=re.MULTILINE))
    done = run(str(DOCS / GENERATED[page]), "--check", str(changed))
    assert done.returncode == 1
    assert " x\n" in done.stderr
    run(str(DOCS / GENERATED[page]), str(changed))
    assert changed.read_text("utf-8") == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_somewhere(page: Path) -> None:
    dead = []
    for target in _LINK.findall(_FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or not there.is_relative_to(ROOT) or (anchor and anchor not in anchors(there)):
            dead.append(target)
    assert not dead


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", _FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_named_is_there(page: Path) -> None:
    text = page.read_text("utf-8").partition("## Not in this release")[0]
    code = "\n".join([*_FENCED.findall(text), *re.findall(r"`[^`]+`", _FENCED.sub("", text))])
    missing = []
    for words in {tuple(found.split()) for found in re.findall(r"(?:^|[`$ /])townclock((?: [a-z]+)+)", code)}:
        command = cli.get_command(click.Context(cli), words[0])
        if isinstance(command, click.Group) and len(words) > 1:
            command = command.get_command(click.Context(command), words[1])
        if command is None:
            missing.append(words)
    assert not missing


def examples() -> list[tuple[str, str, int]]:
    blocks = re.findall(r"^```console\n(.*?)^```$", (DOCS / "errors.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = [re.fullmatch(r"\$ (.+)\n((?:.*\n)*)\$ echo \$\?\n(\d+)\n", block) for block in blocks]
    return [(each[1], each[2], int(each[3])) for each in found if each]


@pytest.mark.parametrize(("command", "output", "status"), examples(), ids=lambda value: str(value)[:40])
def test_examples_of_errors_are_what_is_said(command: str, output: str, status: int) -> None:
    program, *arguments = shlex.split(command)
    assert program == "townclock"
    done = run("-m", "streams", *arguments, folder=ROOT / "tests" / "data" / "malformed")
    assert (done.stdout, done.stderr, done.returncode) == ("", output, status)


def test_every_example_is_run() -> None:
    assert len(examples()) == (DOCS / "errors.md").read_text("utf-8").count("```console") >= 3


def test_the_documented_producer_makes_a_change_that_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(.*?)```", (DOCS / "schemas.md").read_text("utf-8"), re.DOTALL)
    assert found
    monkeypatch.chdir(ROOT)
    names: dict[str, bytes] = {}
    exec(found[1], names)
    change = decode(names["value"])
    assert isinstance(change, Change)
    assert (change.kind, names["key"]) == (ChangeKind.PUT, b"acct-17")
    context = DocumentContext(frozenset(wheel_bundle().names))
    assert isinstance(register(None, change, context), Accepted)


def test_the_documented_headers_are_those_of_a_record() -> None:
    record = Ended("acct-17", 1, 2, "paused", 30_000_000, TickSource(0, 1, 2), "eu", "default", None)
    section = (DOCS / "schemas.md").read_text("utf-8").partition("## Headers")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE) == [name for name, _ in headers_of(record)]
