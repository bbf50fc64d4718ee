"""Ways to damage a study file, for hypothesis."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.study.helpers import STUDY, changed

AXES = "3]\n  model.norm: [none, batch]\n"
WHOLE = STUDY.encode()
LARGER = changed((", norm: batch", ""), ("3]\n", AXES)) + "resources: {cpus: 2, replicas: 4}\n"
TREE: dict[str, Any] = yaml.safe_load(LARGER)

SNIPPETS = [
    *(b"\x00", b"\t", b"\r", b"\r\n", b"\n", b"\xef\xbb\xbf", b"\xff\xfe", b"\x85", b"\xc2\x85"),
    *("\u2028".encode(), "\u202e".encode(), b"\xed\xa0\x80", b'"\\ud800"', b'"\\Uffffffff"'),
    *(b"!", b"!!int x", b"!!set {a}", b"!!python/object/apply:os.system [id]", b"!<x> ", b"!a!b "),
    *(
        b"&a ",
        b"*a",
        b"<<: ",
        b"<<: *a",
        b"=: ",
        b"---\n",
        b"...\n",
        b"%YAML 9.9\n",
        b"%TAG ! a\n",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b"? ",
        b"- ",
        b": ",
        b", ",
        b"|\n",
        b">-\n",
        b"'",
        b'"',
        b"# ",
        b"@",
    ),
    *(b"1e999", b".nan", b"-.inf", b"9" * 400, b"2001-99-99", b"12:30:45", b"yes", b"null", b"~"),
    *(b"[" * 200, b"{a: " * 100, b"- " * 100, b"\n" * 50, b"a" * 2000, b"  ", b"init.scale: 3\n"),
]


def _apply(text: bytes, change: tuple[str, int, int, bytes]) -> bytes:
    kind, at, length, more = change
    at %= len(text) + 1
    if kind == "flip" and at < len(text):
        return text[:at] + bytes([text[at] ^ (1 << length % 8)]) + text[at + 1 :]
    if kind == "insert":
        return text[:at] + more + text[at:]
    if kind == "remove":
        return text[:at] + text[at + length :]
    if kind == "cut":
        return text[:at]
    return text


@st.composite
def changed_bytes(draw: st.DrawFn) -> bytes:
    """Bits flipped, bytes put in and taken out, the end cut off."""
    text = WHOLE
    kind = st.sampled_from(["flip", "insert", "insert", "remove", "cut"])
    more = st.sampled_from(SNIPPETS) | st.binary(max_size=4)
    change = st.tuples(kind, st.integers(0, len(WHOLE)), st.integers(0, 30), more)
    for each in draw(st.lists(change, min_size=1, max_size=3)):
        text = _apply(text, each)
    return text


@st.composite
def changed_lines(draw: st.DrawFn) -> bytes:
    """Lines swapped, repeated, removed, indented, or ended otherwise."""
    lines = LARGER.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["swap", "repeat", "remove", "indent", "unindent", "text"]))
        i = draw(st.integers(0, len(lines) - 1))
        j = draw(st.integers(0, len(lines) - 1))
        if kind == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        elif kind == "repeat":
            lines.insert(j, lines[i])
        elif kind == "remove" and len(lines) > 1:
            del lines[i]
        elif kind == "indent":
            lines[i] = draw(st.sampled_from([" ", "  ", "\t"])) + lines[i]
        elif kind == "unindent":
            lines[i] = lines[i].removeprefix("  ")
        else:
            lines[i] += draw(st.text(st.characters(codec="utf-8"), max_size=6))
    return draw(st.sampled_from(["\n", "\r\n", "\r"])).join(lines).encode()


_texts = st.text(st.characters(codec="utf-8"), max_size=8)
_words = st.sampled_from(
    ["name", "low", "optim.lr", "adam", "init.scale", "digits", "all", "data"]
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.integers()
    | st.sampled_from([10**17, 2**31, 10**30, -(10**400)])
    | st.floats()
    | st.dates()
    | _words
    | _texts
)
values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(_words | _texts, inner, max_size=4)
    ),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in inner:
        yield (*path, key)
        if isinstance(below, dict | list):
            yield from _paths(below, (*path, key))


PATHS = list(_paths(TREE))


@st.composite
def changed_tree(draw: st.DrawFn) -> bytes:
    """Values of any type where others belong, keys that are new, renamed or missing."""
    tree = copy.deepcopy(TREE)
    path = draw(st.sampled_from(PATHS))
    inner: Any = tree
    for part in path[:-1]:
        inner = inner[part]
    kind = draw(st.sampled_from(["put", "put", "put", "add", "rename", "remove"]))
    if kind == "put" or isinstance(inner, list):
        inner[path[-1]] = draw(values)
    elif kind == "add":
        inner[draw(_words | _texts)] = draw(values)
    else:
        value = inner.pop(path[-1])
        if kind == "rename":
            inner[draw(_words | _texts)] = value
    return yaml.safe_dump(tree, allow_unicode=True, sort_keys=False).encode()


@st.composite
def override_texts(draw: st.DrawFn) -> str:
    """`--set` texts: a field of the study or any text, a value of any type or any text."""
    names = [".".join(str(part) for part in path) for path in PATHS]
    names += [name.removeprefix("recipe.") for name in names]
    field = draw(st.sampled_from(names) | _texts)
    value = draw(values.map(lambda v: yaml.safe_dump(v, default_flow_style=True)) | _texts)
    return draw(st.sampled_from([f"{field}={value}", f"{field}={value}", field, value]))
