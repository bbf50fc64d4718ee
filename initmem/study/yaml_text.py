"""YAML with line numbers, for people: `1e-3` is a number, a key given twice is an error.

A strict part of YAML 1.2: mappings, sequences, text, numbers, true, false, null. No tags, no
anchors, no dates, no yes/no booleans.
"""

from __future__ import annotations

import re
from typing import Any, NoReturn

import yaml

from initmem.study.spec import Problem, StudyError

MAX_BYTES = 2**17
"""PyYAML reads this much in half a second."""
MAX_DEPTH = 64

Path = tuple[str | int, ...]

# U+0085, U+2028 and U+2029 end a line for PyYAML and not for an editor: lines would be wrong.
_FORBIDDEN = re.compile("[^\t\n\r -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Loader(yaml.SafeLoader):
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()
        if getattr(event, "anchor", None):  # a few aliases of aliases fill any memory
            self.refuse(event, "anchors and aliases are not allowed")
        if getattr(event, "tag", None):
            self.refuse(event, f"tags are not allowed, got {event.tag}")
        if self.depth > MAX_DEPTH:
            self.refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def refuse(self, event: Any, text: str) -> NoReturn:
        raise yaml.composer.ComposerError(None, None, text, event.start_mark)


_Loader.yaml_implicit_resolvers = {}
_SCALARS = {
    "null": r"^(~|null|Null|NULL|)$",
    "bool": r"^(true|True|TRUE|false|False|FALSE)$",
    "int": r"^[-+]?[0-9]+$",
    "float": r"^[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN))$",
}
for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), None)


def parse(text: bytes, source: str) -> tuple[Any, dict[Path, int]]:
    """Text -> the value, and the line (from 1) of every path in it.

    Raises StudyError naming source and line.
    """
    if len(text) > MAX_BYTES:
        raise _fault(source, 1, f"larger than a study file may be ({MAX_BYTES} bytes)")
    node = _compose(text, source)
    lines: dict[Path, int] = {(): 1}
    faults: list[Problem] = []
    value = _build(node, (), lines, source, faults) if node else None
    if faults:
        raise StudyError(faults)
    return value, lines


def _compose(encoded: bytes, source: str) -> yaml.Node | None:
    try:
        text = encoded.decode("utf-8")
    except UnicodeDecodeError as error:
        line = encoded[: error.start].count(b"\n") + 1
        raise _fault(source, line, "is not UTF-8 text") from None
    if wrong := _FORBIDDEN.search(text):
        line = len(text[: wrong.start()].splitlines() or [""])
        raise _fault(source, line, f"the character U+{ord(wrong[0]):04X} is not allowed")
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = f"{error.context}, {error.problem}" if error.context else f"{error.problem}"
        last = len(text.splitlines())  # the end of the text has a mark on the line after it
        raise _fault(source, min(mark.line + 1, last) if mark else 1, problem) from None
    except (ValueError, OverflowError):  # PyYAML at "\Uffffffff", a version of many digits
        raise _fault(source, loader.line + 1, "a number or escape that is out of range") from None


def _build(
    node: yaml.Node, path: Path, lines: dict[Path, int], source: str, faults: list[Problem]
) -> Any:
    def fault(text: str, at: yaml.Node = node, more: Path = ()) -> None:
        faults.append(Problem(f"{source}:{at.start_mark.line + 1}", name(path + more), text))

    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        items = {}
        for key_node, value_node in node.value:
            key = _key(key_node)
            if key is None:
                fault("keys must be plain text", key_node)
                continue
            if key in items:
                fault(f"given twice (first on line {lines[*path, key]})", key_node, (key,))
                continue
            items[key] = _build(value_node, (*path, key), lines, source, faults)
            lines[*path, key] = key_node.start_mark.line + 1
        return items
    if isinstance(node, yaml.SequenceNode):
        return [_build(n, (*path, i), lines, source, faults) for i, n in enumerate(node.value)]
    return _scalar(node, fault)


def _key(node: yaml.Node) -> str | None:
    plain = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str")
    return str(node.value) if plain and not _SURROGATE.search(node.value) else None


def _scalar(node: yaml.Node, fault: Any) -> Any:
    kind = node.tag.removeprefix("tag:yaml.org,2002:")
    text = node.value
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    if kind == "int":
        if len(text) > 18:
            fault("a number with too many digits")
            return None
        return int(text)
    if kind == "float":
        return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))
    if _SURROGATE.search(text):
        fault("half of a surrogate pair is no character")
        return None
    return text


def name(path: Path) -> str:
    """A path as the dotted name a user writes; a position in a list as [i]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".") or "study"


def _fault(source: str, line: int, text: str) -> StudyError:
    return StudyError([Problem(f"{source}:{line}", "yaml", text)])
