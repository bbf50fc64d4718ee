"""YAML with line numbers, for people: `1e-3` is a number, a key given twice is an error.

A strict part of YAML 1.2: mappings, sequences, text, numbers, true, false, null. No tags, no
anchors, no dates, no yes/no booleans.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from initmem.study.spec import Problem, StudyError

MAX_BYTES = 2**20
MAX_DEPTH = 64

Path = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):  # a few aliases of aliases fill any memory
            mark = self.peek_event().start_mark
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)


_Loader.yaml_implicit_resolvers = {}
_SCALARS = {
    "null": r"^(~|null|Null|NULL|)$",
    "bool": r"^(true|True|TRUE|false|False|FALSE)$",
    "int": r"^[-+]?[0-9]+$",
    "float": r"^[-+]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF)|\.(nan|NaN))$",
}
for _kind, _pattern in _SCALARS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), None)


def parse(text: bytes, source: str) -> tuple[Any, dict[Path, int]]:
    """Text -> the value, and the line (from 1) of every path in it.

    Raises StudyError naming source and line.
    """
    if len(text) > MAX_BYTES:
        raise _fault(source, 1, f"larger than a study file may be ({MAX_BYTES} bytes)")
    try:
        node = yaml.compose(text.decode("utf-8"), Loader=_Loader)
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise _fault(source, line, "is not UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _fault(source, mark.line + 1 if mark else 1, f"{error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.decode("utf-8")[: error.position].count("\n") + 1
        raise _fault(source, line, "a character that YAML does not allow") from None
    except RecursionError:
        raise _fault(source, 1, f"nested deeper than {MAX_DEPTH} levels") from None
    lines: dict[Path, int] = {(): 1}
    faults: list[Problem] = []
    value = _build(node, (), lines, source, faults) if node else None
    if faults:
        raise StudyError(faults)
    return value, lines


def _build(
    node: yaml.Node, path: Path, lines: dict[Path, int], source: str, faults: list[Problem]
) -> Any:
    line = node.start_mark.line + 1

    def fault(text: str, at: yaml.Node = node, more: Path = ()) -> None:
        faults.append(Problem(f"{source}:{at.start_mark.line + 1}", name(path + more), text))

    lines[path] = line
    if len(path) > MAX_DEPTH:
        fault(f"nested deeper than {MAX_DEPTH} levels")
    elif not isinstance(node, yaml.ScalarNode) and not node.tag.endswith((":map", ":seq")):
        fault(f"the tag {node.tag} is not allowed here")
    elif isinstance(node, yaml.MappingNode):
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
    elif isinstance(node, yaml.SequenceNode):
        return [_build(n, (*path, i), lines, source, faults) for i, n in enumerate(node.value)]
    else:
        return _scalar(node, fault)
    return None


def _key(node: yaml.Node) -> str | None:
    plain = isinstance(node, yaml.ScalarNode) and node.tag.endswith(":str")
    return str(node.value) if plain else None


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
    if kind == "str":
        return text
    fault(f"the tag {node.tag} is not allowed here")
    return None


def name(path: Path) -> str:
    """A path as the dotted name a user writes; a position in a list as [i]."""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".") or "study"


def _fault(source: str, line: int, text: str) -> StudyError:
    return StudyError([Problem(f"{source}:{line}", "yaml", text)])
