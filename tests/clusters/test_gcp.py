"""clusters/gcp.yaml against Google's own description of a machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest

from tests.clusters.files import config_of

DOCUMENTS = files("googleapiclient.discovery_cache") / "documents"
SCHEMAS = json.loads((DOCUMENTS / "compute.v1.json").read_text())["schemas"]
TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict}


def faults(value: Any, schema: dict[str, Any], at: str = "") -> Iterator[str]:
    """Where a value is not what the schema says. Google writes int64 as a string of digits, and
    takes numbers."""
    if "$ref" in schema:
        properties = SCHEMAS[schema["$ref"]]["properties"]
        if not isinstance(value, dict):
            yield f"{at}: no object"
            return
        for key, inner in value.items():
            if key in properties:
                yield from faults(inner, properties[key], f"{at}.{key}")
            else:
                yield f"{at}.{key}: unknown"
    elif schema["type"] == "array":
        if not isinstance(value, list):
            yield f"{at}: no list"
            return
        for inner in value:
            yield from faults(inner, schema["items"], at)
    elif not isinstance(
        value, int if "int" in schema.get("format", "") else TYPES[schema["type"]]
    ):
        yield f"{at}: no {schema['type']}"
    elif value not in schema.get("enum", [value]):
        yield f"{at}: {value}: not allowed"


@pytest.mark.parametrize("kind", ["head", "gpu_worker"])
def test_every_field_of_a_machine_is_one_of_googles(kind: str) -> None:
    machine = config_of("clusters/gcp.yaml")["available_node_types"][kind]["node_config"]
    assert list(faults(machine, {"$ref": "Instance"})) == []


def test_a_typo_would_be_seen() -> None:
    machine = {"scheduling": [{"preemptible": True}], "disk": [], "disks": [{"type": "SPINNING"}]}
    assert list(faults(machine, {"$ref": "Instance"})) == [
        ".scheduling: no object", ".disk: unknown", ".disks.type: SPINNING: not allowed",
    ]  # fmt: skip
