"""Files of schedule documents: each malformed file's exact error, YAML by version 1.2, lines."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from streams.adapters.documents import InvalidDocuments, LoadedDocuments, load_documents
from streams.adapters.documents_json import json_place
from streams.adapters.documents_yaml import MAX_ALIASED_VALUES, yaml_places
from streams.adapters.tz.wheel import wheel_bundle
from streams.domain.document import DocumentContext

MALFORMED = Path(__file__).parent.parent / "data" / "malformed"
FILES = sorted(path.name for path in MALFORMED.iterdir() if path.suffix in (".yaml", ".json"))
GOOD = """\
id: {id}
region: eu
zone: Europe/Berlin
rule: {{kind: daily, at: ["09:00"]}}
deliver: {{provider: log, to: x, payload: {payload}}}
"""


def context(regions: frozenset[str] | None = None, providers: frozenset[str] | None = None) -> DocumentContext:
    return DocumentContext(frozenset(wheel_bundle().names), regions, providers)


def errors(loaded: LoadedDocuments, within: DocumentContext | None = None) -> InvalidDocuments:
    with pytest.raises(InvalidDocuments) as caught:
        loaded.accept(within or context())
    return caught.value


def good(schedule_id: str = "a", payload: str = "{}") -> str:
    return GOOD.format(id=schedule_id, payload=payload)


@pytest.mark.parametrize("name", FILES)
def test_malformed_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MALFORMED)
    found = errors(load_documents([name]), context(frozenset(("eu", "us")), frozenset(("acme-mail", "log"))))
    assert str(found) == (MALFORMED / f"{name}.expected").read_text("utf-8").removesuffix("\n")
    assert found.exit_code == 2
    for line in str(found).split("\n"):
        assert re.fullmatch(rf"{re.escape(name)}:[1-9][0-9]*: [^ ]+: .+; .+", line)


def test_the_table_of_malformed_files_is_whole() -> None:
    table = re.findall(r"^\| `([^`]+)` \| (.+) \|$", (MALFORMED / "README.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(name for name, _ in table) == FILES
    assert len({way for _, way in table}) == len(table) >= 30
    expected = {(MALFORMED / f"{name}.expected").read_text("utf-8").partition(": ")[2] for name in FILES}
    assert len(expected) >= 80  # each wrong in a way of its own


def test_json_errors_have_the_fields_of_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(MALFORMED)
    names = ["zone-mistyped.yaml", "missing-zone.yaml", "payload-nan.yaml", "payload-surrogate.json"]
    listed = [each for each in errors(load_documents(names)).to_json() if each["field"] != "id"]
    assert listed[:2] == [
        {
            "file": "zone-mistyped.yaml",
            "line": 3,
            "field": "zone",
            "value": "Europe/Berlni",
            "problem": "there is no such time zone",
            "fix": "did you mean Europe/Berlin?",
        },
        {
            "file": "missing-zone.yaml",
            "line": 1,
            "field": "zone",
            "value": None,
            "problem": "missing",
            "fix": "write an IANA zone such as Europe/Berlin",
        },
    ]
    assert listed[2]["value"] == "nan"
    json.dumps(listed, allow_nan=False, ensure_ascii=False).encode()


def test_files_that_cannot_be_read_are_reported_with_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("a.yaml").write_text(good().replace("Europe/Berlin", "Europe/Berlni"))
    assert str(errors(load_documents(["nowhere.yaml", "a.yaml", "folder", "nul\0.yaml"]))).split("\n") == [
        "nowhere.yaml:1: (file): can't be read: no such file or directory; name a file that can be read",
        'a.yaml:3: zone: there is no such time zone ("Europe/Berlni"); did you mean Europe/Berlin?',
        "folder:1: (file): is a directory; name the files in it, for instance DIR/*.yaml",
        "nul\\u0000.yaml:1: (file): can't be read: embedded null byte; name a file that can be read",
    ]


def test_an_id_used_twice_is_a_problem_at_both_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.yaml").write_text(good("a") + "---\n" + good("b"))
    Path("b.json").write_text('[{"zone": 1,\n "id": "b"},\n{"id": "c"}]')
    found = [str(each) for each in errors(load_documents(["a.yaml", "b.json"])).problems if each.problem.field == "id"]
    assert found == [
        'a.yaml:7: id: stands twice, also at b.json:2 ("b"); give each schedule an id of its own',
        'b.json:2: id: stands twice, also at a.yaml:7 ("b"); give each schedule an id of its own',
    ]
    same = errors(load_documents(["a.yaml", "a.yaml"]))
    assert len(same.problems) == 4


@pytest.mark.parametrize("shape", ["stream", "yaml list", "json list", "list in a stream", "crlf", "bom"])
def test_one_file_may_hold_many_documents(shape: str, tmp_path: Path) -> None:
    texts = [good("a"), good("b"), good("c")]
    items = ["- " + text.replace("\n", "\n  ").rstrip() + "\n" for text in texts]
    values = [each.raw for text in texts for each in load_text(tmp_path, text).documents]
    whole = {
        "stream": "---\n".join(["", *texts, ""]),
        "yaml list": "".join(items),
        "json list": json.dumps(values),
        "list in a stream": "---\n".join(["".join(items[:2]), texts[2]]),
        "crlf": "---\n".join(texts).replace("\n", "\r\n"),
        "bom": "\ufeff" + "---\n".join(texts),
    }[shape]
    accepted = load_text(tmp_path, whole).accept(context())
    assert [each.schedule.id for each in accepted] == ["a", "b", "c"]
    assert [json.loads(each.document.text) for each in accepted] == values


def load_text(folder: Path, text: str, name: str = "s.yaml") -> LoadedDocuments:
    path = folder / name
    path.write_bytes(text.encode())
    return load_documents([str(path)])


@pytest.mark.parametrize("text", [good(), json.dumps({"id": "a"})])
def test_standard_input_is_yaml_or_json(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    loaded = load_documents(["-"])
    assert [document.file for document in loaded.documents] == ["<stdin>"]
    assert isinstance(loaded.documents[0].raw, dict)
    assert loaded.documents[0].raw["id"] == "a"


def test_plain_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    cases = {
        "02:30": "02:30", "no": "no", "on": "on", "Yes": "Yes", "y": "y", "2027-01-01": "2027-01-01",
        "2027-01-01T00:00Z": "2027-01-01T00:00Z", "1_000": "1_000", "0b11": "0b11", "190:20:30": "190:20:30",
        "0o17": 15, "0xff": 255, "017": 17, "-5": -5, "+5": 5, "1.5": 1.5, "1e3": 1000.0, ".5": 0.5, "5.": 5.0,
        "true": True, "False": False, "TRUE": True, "tRue": "tRue", "null": None, "~": None, "Null": None,
        "": None, "'5'": "5", '"true"': "true", "!!str 5": None, "=": "=", "-": "-", "1e": "1e", ".": ".", "0o8": "0o8",
    }  # fmt: skip
    text = "".join(f"k{number}: {plain}\n" for number, plain in enumerate(cases) if plain != "-")
    loaded = load_text(tmp_path, text)
    wanted = {f"k{number}": value for number, (plain, value) in enumerate(cases.items()) if plain != "-"}
    wanted[f"k{list(cases).index('!!str 5')}"] = "5"
    raw = loaded.documents[0].raw
    assert raw == wanted
    assert isinstance(raw, dict)
    assert [type(value) for value in raw.values()] == [type(value) for value in wanted.values()]
    infinite = load_text(tmp_path, "[.inf, -.INF, .nan, 1e999]").documents
    assert [str(each.raw) for each in infinite] == ["inf", "-inf", "nan", "inf"]


def test_anchors_and_aliases_are_values(tmp_path: Path) -> None:
    first = good("a").replace("rule: ", "rule: &nightly ")
    second = good("b").replace('{kind: daily, at: ["09:00"]}', "*nightly")
    items = ["- " + text.replace("\n", "\n  ").rstrip() + "\n" for text in (first, second)]
    accepted = load_text(tmp_path, "".join(items)).accept(context())
    assert accepted[0].schedule.rule == accepted[1].schedule.rule


def test_aliases_are_bounded_over_a_whole_file(tmp_path: Path) -> None:
    lines = ["- &a [" + ", ".join("x" * 1000) + "]", "- &b [" + ", ".join(["*a"] * 100) + "]"]
    lines += [f"- [{', '.join(['*b'] * 9)}]", "- [*b]"]
    loaded = load_text(tmp_path, "\n".join(lines))
    faults = [fault for document in loaded.documents for fault in document.faults]
    assert MAX_ALIASED_VALUES == 1_000_000
    assert [(fault.line, fault.problem.problem) for fault in faults] == [
        (2, "aliases make too many values of this")  # where the anchor is
    ]


def test_lines_are_those_of_values_and_of_mappings_that_lack_one(tmp_path: Path) -> None:
    text = 'id: a\nrule:\n\n  kind: weekly\n  at:\n    - "09:00"\n    -\n      "10:00"\n'
    text += "deliver:\n  {to: x,\n  payload: [1,\n  2]}\n"
    document = load_text(tmp_path, text).documents[0]
    paths = {("id",): 1, ("zone",): 1, ("rule",): 2, ("rule", "weekdays"): 2, ("rule", "kind"): 4, ("rule", "at"): 5,
             ("rule", "at", 0): 6, ("rule", "at", 1): 8, ("deliver",): 9, ("deliver", "provider"): 9,
             ("deliver", "to"): 10, ("deliver", "payload", 1): 12}  # fmt: skip
    assert {path: document.line_of(path) for path in paths} == paths


def test_lines_of_json_text() -> None:
    text = ' {"id": "a\\"}",\n"rule":\n{"at": ["09:00",\n\n"10:00"], "e": {}, "f": []},\n'
    text += '\t"deliver": {"to":\n 5}, "": -1e5}\n'
    place = json_place(text)
    paths = {(): 1, ("id",): 1, ("rule",): 2, ("rule", "at", 0): 3, ("rule", "at", 1): 5, ("rule", "e"): 5,
             ("rule", "f"): 5, ("rule", "kind"): 2, ("deliver",): 6, ("deliver", "to"): 7, ("",): 7}  # fmt: skip
    assert {path: place.line_of(path) for path in paths} == paths
    assert json_place("5").line == 1
    assert yaml_places("\n\n5")[0].line == 3


def test_json_in_a_yaml_file_and_yaml_that_looks_like_json(tmp_path: Path) -> None:
    assert load_text(tmp_path, '{"id":\t"a"}').documents[0].raw == {"id": "a"}
    assert load_text(tmp_path, "{id: a}").documents[0].raw == {"id": "a"}
    assert "not JSON" in str(errors(load_text(tmp_path, "{id: a}", "s.json")))


def test_no_problem_hides_another_across_documents(tmp_path: Path) -> None:
    text = "---\n".join([good("a|"), good("b").replace("eu", "[]"), good("c") + "gap: x\n", "id: d\nrule: [\n"])
    found = errors(load_text(tmp_path, text)).problems
    assert [(each.line, each.problem.field) for each in found] == [
        (1, "id"), (8, "region"), (18, "gap"), (21, "(file)"),
    ]  # fmt: skip
