"""3,400 damaged study files: each loads, or is answered with lines that name file, line, field."""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from initmem.study import plan
from initmem.study.load import load
from initmem.study.spec import StudyError
from tests.study import damage
from tests.study.helpers import STUDY

FILE_LINE = re.compile(r"(?P<file>[^:]+):(?P<line>\d+): (?P<field>[^:\n]+): .+")
SET_LINE = re.compile(r"--set: (?P<field>[^:\n]+): .+")
HEAVY = {"torch", "ray", "optuna", "pandas"}

_fuzz = settings(deadline=None, derandomize=True, database=None)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "s.yaml"


def _check(file: Path, text: bytes, *overrides: str) -> bool:
    """Whether the study loads. Anything but a study or a well-told fault fails the test."""
    file.write_bytes(text)
    modules, start = set(sys.modules), time.process_time()
    try:
        study = load(file, overrides)
    except StudyError as error:
        study = None
        _check_message(str(error), str(file), text)
    assert time.process_time() - start < 1
    assert not HEAVY & (sys.modules.keys() - modules)
    if study is None:
        return False
    for arm in plan.arms(study):
        for end in ("low", "high"):
            point = {field: getattr(r, end) for field, r in study.ranges.items()}
            cell = plan.cell(study, arm, 0, point)
            assert cell.replicas and plan.blocks(study, cell)
            assert len({replica.id for replica in cell.replicas}) == len(cell.replicas)
    return True


def _check_message(message: str, file: str, text: bytes) -> None:
    last = len(re.split(r"\r\n|\r|\n", text.decode(errors="replace")))
    for line in message.split("\n"):
        assert line.isprintable(), line
        assert len(line) < 700, line
        found = FILE_LINE.fullmatch(line)
        assert found or SET_LINE.fullmatch(line), line
        if found:
            assert found["file"] == file
            assert 1 <= int(found["line"]) <= last, line


@settings(_fuzz, max_examples=1200)
@given(text=damage.changed_bytes())
def test_changed_bytes(file: Path, text: bytes) -> None:
    _check(file, text)


@settings(_fuzz, max_examples=600)
@given(text=damage.changed_lines())
def test_changed_lines(file: Path, text: bytes) -> None:
    _check(file, text)


@settings(_fuzz, max_examples=1200)
@given(text=damage.changed_tree())
def test_changed_values(file: Path, text: bytes) -> None:
    _check(file, text)


@settings(_fuzz, max_examples=400)
@given(override=damage.override_texts())
def test_changed_by_overrides(file: Path, override: str) -> None:
    _check(file, STUDY.encode(), override)


@pytest.mark.parametrize("snippet", damage.SNIPPETS, ids=lambda s: repr(s[:20])[1:])
def test_a_snippet_as_key_value_item_and_file(file: Path, snippet: bytes) -> None:
    _check(file, snippet)
    for old in (b"batch: 50", b"0.25", b"{low: 1e-2, high: 6e-2, log: true}", b"digits", b"\n"):
        _check(file, STUDY.encode().replace(old, snippet, 1))
    _check(file, STUDY.encode() + snippet)


def test_the_undamaged_files_load(file: Path) -> None:
    assert _check(file, damage.WHOLE)
    assert _check(file, damage.LARGER.encode())
    assert _check(file, b"\xef\xbb\xbf" + damage.WHOLE)
    assert _check(file, damage.WHOLE.replace(b"\n", b"\r\n"))
    assert _check(file, b"%YAML 1.2\n---\n" + damage.WHOLE + b"...\n")


def _laughs() -> bytes:
    lists = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 20)]
    return "\n".join(["l0: &l0 [ha]", *lists]).encode()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (_laughs(), "1: yaml: anchors and aliases are not allowed"),
        (b"a: &a\n  b: *a\n", "1: yaml: anchors and aliases are not allowed"),
        (b"a: 1\nb: !!python/object/apply:os.system [id]\n", "2: yaml: tags are not allowed"),
        (b"a:\n  - !!timestamp 2001-99-99\n", "2: yaml: tags are not allowed"),
        (b"a: 1\n---\nb: 2\n", "2: yaml: expected a single document in the stream"),
        (b"a: 1\n<<: {b: 2}\n", "2: <<: unknown key"),
        (b"a: 1\n1: 2\n", "2: study: keys must be plain text"),
        (b"a: 1\n? [a, b]\n: 2\n", "2: study: keys must be plain text"),
        (b'a: 1\n"\\ud800": 2\n', "2: study: keys must be plain text"),
        (b'a: 1\nb: "\\ud800"\n', "2: b: half of a surrogate pair"),
        (b'a: 1\nb: "\\Uffffffff"\n', "2: yaml: a number or escape that is out of range"),
        (b"%YAML " + b"9" * 5000 + b".1\n---\na: 1\n", "1: yaml: a number or escape that is"),
        (b"a: 1\nb: \x00\n", "2: yaml: the character U+0000 is not allowed"),
        ("a: 1\rb: 1\r\nc: \u2028".encode(), "3: yaml: the character U+2028 is not allowed"),
        (b"a: 1\nb: \xff\n", "2: yaml: is not UTF-8 text"),
        (STUDY.encode("utf-16"), "1: yaml: is not UTF-8 text"),
        (b"a: 1\n\tb: 2\n", "2: yaml: while scanning for the next token, found character '\\t'"),
        (b"a: [1,\n", "1: yaml: while parsing a flow node"),
        (b"[" * 100_000, "1: yaml: nested deeper than 64 levels"),
        (b"- " * 60_000, "1: yaml: nested deeper than 64 levels"),
        (b"".join(b" " * i + b"a:\n" for i in range(400)), "65: yaml: nested deeper than 64"),
    ],
    ids=lambda v: repr(v[:20]) if isinstance(v, bytes) else "",
)
def test_known_traps(file: Path, text: bytes, found: str) -> None:
    file.write_bytes(text)
    with pytest.raises(StudyError) as caught:
        load(file)
    _check_message(str(caught.value), str(file), text)
    assert f"{file}:{found}" in str(caught.value)
    _check(file, text)


def test_text_from_the_file_cannot_break_a_message(file: Path) -> None:
    text = STUDY.replace("width: 8", r'"a\nx.yaml:1: b\e[31m": 1, width: "\r\u202e\0"')
    file.write_text(text)
    with pytest.raises(StudyError) as caught:
        load(file)
    first, second = str(caught.value).splitlines()
    assert f"{file}:4: model.a\\nx.yaml\\x3a1\\x3a b\\x1b[31m: unknown field" in first + second
    assert r"model.width: must be a valid integer, got '\r\u202e\x00'" in first + second
