"""Characters, the places of windows, and groups of answers, by hand on small files."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest
import torch

from initmem.data import text as texts
from initmem.data.dataset import Dataset
from initmem.data.load import check, load
from initmem.data.text import text
from initmem.study.spec import UserError
from initmem.study.token_data import Text

ROOT = Path(__file__).parent.parent.parent
PRINTABLE = "".join(map(chr, range(32, 127)))


def section(length: int, train: int, validation: int = 1, test: int = 1, split: int = 0) -> Text:
    return Text(name="text", file="a.txt", length=length, train=train, validation=validation,
                test=test, split=split)  # fmt: skip


def made(folder: Path, content: str, of: Text) -> Dataset:
    (folder / "a.txt").write_bytes(content.encode())
    return text(of, folder)


def characters(row: list[int]) -> str:
    return "".join([*PRINTABLE, "\n", "?"][token] for token in row)


def test_characters_and_places_of_windows(tmp_path: Path) -> None:
    """Every place of the training text is drawn once, the others are evenly spaced."""
    content = "".join(chr(32 + (7 * i + i * i // 5) % 95) for i in range(400))
    data = made(tmp_path, content, section(9, 351, 4, 3))
    places = {content[i : i + 10]: i for i in range(391)}
    found = []
    for split in (data.train, data.validation, data.test):
        assert split.inputs.shape == split.targets.shape == (len(split.inputs), 9)
        rows = zip(split.inputs.tolist(), split.targets.tolist(), strict=True)
        windows = [(characters(x), characters(y)) for x, y in rows]
        assert all(x[1:] == y[:-1] for x, y in windows)
        found.append([places[x + y[-1]] for x, y in windows])
    assert sorted(found[0]) == list(range(351)) != found[0]
    assert found[1:] == [[360, 362, 365, 368], [380, 383, 387]]
    assert not data.whole and (data.shape, data.classes, data.vocabulary) == ((9,), 97, 97)


def test_all_characters_have_tokens(tmp_path: Path) -> None:
    content = "é\t\n\r\n~ 🙂" + PRINTABLE
    tokens = [96, 96, 95, 95, 94, 0, 96, *range(95)]  # a line break is one in any convention
    data = made(tmp_path, content + "." * 20, section(2, 107, 2, 2))
    windows = torch.cat([data.train.inputs, data.train.targets[:, 1:]], dim=1).tolist()
    whole = [*tokens, *[14] * 7]
    assert sorted(windows) == sorted(whole[i : i + 3] for i in range(107))


def test_the_seed_moves_training_windows_alone(tmp_path: Path) -> None:
    content = "".join(chr(32 + i * i // 3 % 95) for i in range(1000))
    first = made(tmp_path, content, section(8, 50, 5, 5))
    assert first.hash == text(section(8, 50, 5, 5), tmp_path).hash
    other = text(section(8, 50, 5, 5, split=1), tmp_path)
    assert first.hash != other.hash and first.train.inputs.tolist() != other.train.inputs.tolist()
    assert first.validation.inputs.tolist() == other.validation.inputs.tolist()


def test_groups_by_hand(tmp_path: Path) -> None:
    """After b comes mostly c, but after aab d; after e nothing was seen."""
    train = "bc" * 5 + "aabd" * 2 + "bc" * 36
    assert len(train) == 90
    data = made(tmp_path, train + "aabde" + "bcbcb", section(4, 20))
    assert characters(data.validation.inputs[0].tolist()) == "aabd"
    assert characters(data.validation.targets[0].tolist()) == "abde"
    # After a comes a or b, each twice: of equals the first counts. aab is seen in full before d.
    assert {name: group.tolist() for name, group in data.groups.items()} == {
        "bigram": [[True, False, False, False]],
        "context": [[False, False, True, False]],
        "rest": [[False, True, False, True]],
    }


def test_groups_against_a_count_of_the_text_that_comes_along() -> None:
    of = Text(name="text", train=10, validation=20, test=1, length=16)
    data = load(of, Path("nowhere"))
    content = texts.OURS.read_text(encoding="ascii")
    train = content[: len(content) * 9 // 10]

    def likeliest(before: str) -> str:
        ends = re.finditer(f"(?={re.escape(before)}(.))", train, re.DOTALL)
        counts = Counter(found[1] for found in ends)
        # The smallest of equals, the line break after all that is printed.
        return min(counts, key=lambda c: (-counts[c], c == "\n", c), default="")

    rows = zip(data.validation.inputs[:4].tolist(), data.validation.targets[:4].tolist(),
               strict=True)  # fmt: skip
    for row, (inputs, targets) in enumerate(rows):
        seen, answers = characters(inputs), characters(targets)
        for i, answer in enumerate(answers):
            bigram = likeliest(seen[i]) == answer
            context = i >= 2 and likeliest(seen[i - 2 : i + 1]) == answer and not bigram
            group = "bigram" if bigram else "context" if context else "rest"
            assert [n for n, g in data.groups.items() if g[row, i]] == [group]
    assert sum(int(group.sum()) for group in data.groups.values()) == 20 * 16


@pytest.mark.parametrize(
    ("content", "of", "says"),
    [
        (None, section(4, 1), "a.txt: data.file: missing; name a UTF-8 text .* or null for"),
        (b"\xff\xfe", section(4, 1), "a.txt: data.file: is not UTF-8 text; name"),
        (b"", section(4, 1), "data.train: 1 windows of 4 .* has places for 0 .* 0 characters"),
        (b"a" * 100, section(4, 87), "data.train: 87 windows .* places for 86 .* longer text"),
        (b"a" * 100, section(4, 86, 2), "data.validation: 2 windows of 4 .* places for 1 "),
        (
            b"a" * 100,
            section(4, 86, 1, 9),
            "data.test: 9 windows .* places for 1 of them in the 5",
        ),
        (b"a" * 100, section(5, 1), "data.validation: 1 windows of 5 .* places for 0"),
    ],
)
def test_files_that_will_not_do(
    tmp_path: Path, content: bytes | None, of: Text, says: str
) -> None:
    if content is not None:
        (tmp_path / "a.txt").write_bytes(content)
    for use in (check, load):
        with pytest.raises(UserError, match=says):
            use(of, tmp_path)


@pytest.mark.parametrize(("file", "says"), [(".", "Is a directory"), ("a\0b", "is no path")])
def test_what_is_no_file(tmp_path: Path, file: str, says: str) -> None:
    with pytest.raises(UserError, match=f"data.file: .*{says}.*name a UTF-8 text"):
        check(Text(name="text", file=file), tmp_path)


def test_the_text_that_comes_along_is_packed_with_its_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["initmem"]
    packed = {path for pattern in patterns for path in (ROOT / "initmem").glob(pattern)}
    assert {texts.OURS, texts.OURS.with_name("SOURCE.md")} <= packed
    content = texts.OURS.read_text(encoding="ascii")
    assert 100_000 < len(content) < 250_000 and set(content) <= {*PRINTABLE, "\n"}
    assert content.startswith("Chapter 1\n\nIt is a truth universally acknowledged")
    assert not re.search("gutenberg|copyright|licen[cs]e|e-?text|e-?book", content, re.IGNORECASE)
