"""`townclock schedules` over a running registrar and relay, and with none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from streams.domain.change import Change
from tests.installation import Installation
from tests.registry_support import document


@pytest.fixture
def running(installation: Installation) -> Installation:
    installation.start("registrar")
    installation.start("relay")
    return installation


def write(installation: Installation, name: str, *documents: object) -> str:
    path = Path(installation.folder / name)
    path.write_text(yaml.safe_dump(list(documents), sort_keys=False))
    return name


def test_apply_get_list_pause_resume_delete(running: Installation) -> None:
    berlin = document("berlin", tenant="acme", rule={"kind": "weekly", "weekdays": ["mon"], "at": ["02:30"]})
    new_york = document("ny", region="us", zone="America/New_York")
    file = write(running, "two.yaml", berlin, new_york)
    done = running.run("schedules", "apply", "--wait", file)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "berlin: accepted, revision 1\nny: accepted, revision 1\n"
    assert (
        running.run("schedules", "apply", "--wait", file).stdout
        == "berlin: unchanged, revision 1\nny: unchanged, revision 1\n"
    )

    found = json.loads(running.run("schedules", "get", "berlin", "--json").stdout)
    assert (found["state"], found["incarnation"], found["revision"], found["landed"]) == ("active", 1, 1, True)
    assert found["document"]["rule"] == berlin["rule"]
    assert found["document"]["gap"] == "skip"
    # What get shows can be applied as it is, and changes nothing.
    shown = running.run("schedules", "get", "berlin").stdout
    assert running.run("schedules", "apply", "--wait", "-").returncode == 2
    piped = running.run("schedules", "apply", "--wait", "-", stdin=shown)
    assert piped.stdout == "berlin: unchanged, revision 1\n"

    assert running.run("schedules", "pause", "ny", "--wait").stdout == "ny: accepted, revision 2\n"
    listed = json.loads(running.run("schedules", "list", "--json").stdout)
    assert [(item["id"], item["state"], item["revision"]) for item in listed] == [
        ("berlin", "active", 1),
        ("ny", "paused", 2),
    ]
    assert [
        item["id"] for item in json.loads(running.run("schedules", "list", "--tenant", "acme", "--json").stdout)
    ] == ["berlin"]
    assert [item["id"] for item in json.loads(running.run("schedules", "list", "--region", "us", "--json").stdout)] == [
        "ny"
    ]
    assert [
        item["id"] for item in json.loads(running.run("schedules", "list", "--zone", "Europe/Berlin", "--json").stdout)
    ] == ["berlin"]
    assert json.loads(running.run("schedules", "list", "--state", "deleted", "--json").stdout) == []
    assert running.run("schedules", "resume", "ny", "--wait").stdout == "ny: accepted, revision 3\n"

    dry = running.run("schedules", "delete", "berlin", "ny")
    assert dry.stdout == (
        "berlin: active, revision 1; would be asked to delete\nny: active, revision 3; would be asked to delete\n"
    )
    assert dry.stderr == "nothing was changed; with --yes it is done\n"
    assert running.one("SELECT count(*) FROM schedule WHERE state = 'active'") == 2
    gone = running.run("schedules", "delete", "berlin", "ny", "ny", "--yes", "--wait")
    assert gone.stdout == "berlin: accepted, revision 2\nny: accepted, revision 4\n"
    assert running.run("schedules", "list").stdout.count("\n") == 1
    history = json.loads(running.run("schedules", "get", "ny", "--history", "--json").stdout)["history"]
    assert [(item["number"], item["state"]) for item in history] == [
        (1, "active"), (2, "paused"), (3, "active"), (4, "deleted"),
    ]  # fmt: skip
    assert all(item["landed_offset"] is not None for item in history)
    assert running.run("schedules", "apply", "--wait", file, "--json").returncode == 0
    assert json.loads(running.run("schedules", "get", "ny", "--json").stdout)["incarnation"] == 2


def test_what_is_refused_is_told_with_its_file_and_exit_1(running: Installation) -> None:
    running.run("schedules", "apply", "--wait", write(running, "first.yaml", document("a")))
    file = write(running, "moved.yaml", document("b"), document("a", region="us"))
    done = running.run("schedules", "apply", "--wait", file)
    assert done.returncode == 1
    assert done.stdout == "b: accepted, revision 1\na: refused\n"
    assert done.stderr == (
        'moved.yaml:14: region: a schedule\'s region never changes; it is eu ("us"); '
        "write eu; to move it, delete it and use a new id\n"
    )
    answers = json.loads(running.run("schedules", "apply", "--wait", "--json", file).stdout)["answers"]
    assert [(item["schedule_id"], item["outcome"]) for item in answers] == [("b", "unchanged"), ("a", "refused")]
    assert answers[1]["problems"][0]["field"] == "region"

    conflict = running.run(
        "schedules", "apply", "--wait", "--if-revision", "0", write(running, "c.yaml", document("a", gap="shift"))
    )
    assert conflict.returncode == 1
    assert conflict.stderr == (
        "c.yaml:1: if_revision: the newest revision is 1 (0); read the schedule again, then decide\n"
    )
    nobody = running.run("schedules", "pause", "nobody", "--wait")
    assert (nobody.returncode, nobody.stdout) == (1, "nobody: refused\n")
    assert nobody.stderr == 'nobody: schedule_id: there is no such schedule ("nobody"); put it first\n'


def test_one_bad_document_and_nothing_is_published(installation: Installation) -> None:
    good = write(installation, "good.yaml", *(document(f"s-{number}") for number in range(20)))
    bad = write(installation, "bad.yaml", document("fine"), document("x", zone="Europe/Berlim", color="red"))
    done = installation.run("schedules", "apply", good, bad)
    assert done.returncode == 2
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["zone", "color"]
    assert "did you mean Europe/Berlin?" in done.stderr
    problems = json.loads(installation.run("schedules", "apply", good, bad, "--json").stderr)
    assert [item["field"] for item in problems] == ["zone", "color"]
    unknown = installation.run("schedules", "apply", write(installation, "p.yaml", document("x", region="mars")))
    assert unknown.returncode == 2
    assert "region: the settings have no such region" in unknown.stderr
    assert installation.end(installation.names.schedule_changes) == 0


def test_without_a_registrar_changes_are_published_and_waiting_gives_up(installation: Installation) -> None:
    file = write(installation, "two.yaml", document("a"), document("b"))
    done = installation.run("schedules", "apply", file, "--actor", "me")
    assert done.stdout == "2 changes are published; with --wait it is told what the registrar answers\n"
    published = [value for *_, value in installation.records(installation.names.schedule_changes)]
    assert {(item.schedule_id, item.actor) for item in published if isinstance(item, Change)} == {
        ("a", "me"),
        ("b", "me"),
    }
    late = installation.run("schedules", "apply", file, "--wait", "--timeout", "0.5")
    assert late.returncode == 1
    assert late.stderr.startswith("0 of 2 changes were answered, then none for 0.5 s (the next one is for a).")
    several = installation.run("schedules", "pause", "a", "b")
    assert several.returncode == 1
    assert several.stdout == "a: there is no such schedule\nb: there is no such schedule\n"
    # Whoever comes late is answered all the same: those published twice changed nothing the second time.
    installation.start("registrar")
    installation.start("relay")
    assert (
        installation.run("schedules", "apply", file, "--wait").stdout
        == "a: unchanged, revision 1\nb: unchanged, revision 1\n"
    )


def test_thousands_at_once(running: Installation) -> None:
    file = write(running, "many.yaml", *(document(f"s-{number}") for number in range(3000)))
    done = running.run("schedules", "apply", "--wait", file)
    assert done.returncode == 0, done.stderr + running.logs()
    assert done.stdout.count(": accepted, revision 1\n") == 3000
    assert done.stderr == ""
    assert running.run("schedules", "list").stdout.count("\n") == 3001


@pytest.mark.parametrize(("arguments", "status", "said"), [
    (("get", "nobody"), 1, "there is no schedule nobody"),
    (("pause",), 2, "Missing argument"),
    (("apply", "no-such-file.yaml"), 2, "no-such-file.yaml:1: (file): can't be read"),
    (("pause", "a\tb"), 2, "is no schedule's id"),
])  # fmt: skip
def test_mistakes(installation: Installation, arguments: tuple[str, ...], status: int, said: str) -> None:
    done = installation.run("schedules", *arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_services_that_are_away_are_exit_3(installation: Installation) -> None:
    file = write(installation, "one.yaml", document("a"))
    installation.dsn = "postgresql://townclock@127.0.0.1:9/townclock"
    assert installation.run("schedules", "list").returncode == 3
    # with --wait nothing is published before the answers can be read
    assert installation.run("schedules", "apply", "--wait", file).returncode == 3
    assert installation.end(installation.names.schedule_changes) == 0
    before, installation.bootstrap_servers = installation.bootstrap_servers, "127.0.0.1:9"
    done = installation.run("schedules", "apply", file)
    assert done.returncode == 3
    assert "no Kafka broker answers at 127.0.0.1:9" in done.stderr
    installation.bootstrap_servers = before
