"""The row a replica leaves: a declared schema, and its text form in a record.

Accuracies are in percent, losses in nats, seconds in wall time. Columns that start with `run.`
tell of the run (when, where, how long) and may differ between two runs of one study; all others
are bitwise the same for the same recipe, seed, threads and kind of device.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pyarrow as pa

from initmem.study.recipe import base_type, field_types

Row = dict[str, Any]

_ARROW = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}

_PREDICTOR = {
    "step": pa.int64(),
    "train_accuracy": pa.float64(),
    "train_loss": pa.float64(),
    "validation_accuracy": pa.float64(),
    "validation_loss": pa.float64(),
    "test_accuracy": pa.float64(),
    "test_loss": pa.float64(),
    "test_predictions": pa.binary(),  # a byte a test example: the predicted class
}

_CURVE = pa.struct({name: _PREDICTOR[name] for name in list(_PREDICTOR)[:5]})
_NORMS = pa.struct(
    {
        "group": pa.string(),  # stem, body, head or all
        "initial": pa.float64(),  # L2 norm of the weights before training
        "final": pa.float64(),  # and after
        "distance": pa.float64(),  # |final - initial| / |initial|
        "cosine": pa.float64(),  # of the angle between final and initial
    }
)
_AUDIT = pa.struct(
    {
        "tensor": pa.string(),
        "group": pa.string(),
        "count": pa.int64(),
        "asked_std": pa.float64(),
        "measured_std": pa.float64(),
    }
)

SCHEMA = pa.schema(
    {
        "study": pa.string(),
        "arm": pa.string(),
        "cell": pa.string(),
        "draw": pa.int64(),
        "replica": pa.string(),
        "seed": pa.int64(),
        "memory_axis": pa.string(),
        **{name: _ARROW[base_type(kind)] for name, kind in field_types().items()},
        "state": pa.string(),
        "steps": pa.int64(),  # trained
        "total_steps": pa.int64(),  # the budget
        "interpolated_step": pa.int64(),  # first evaluation with train accuracy >= 99.5
        "interpolated_epoch": pa.float64(),
        **{f"selected.{name}": kind for name, kind in _PREDICTOR.items()},
        **{f"final.{name}": kind for name, kind in _PREDICTOR.items()},
        "loss_tenth_before": pa.float64(),  # mean batch loss, last but one tenth of the budget
        "loss_last_tenth": pa.float64(),
        "diverged_step": pa.int64(),
        "last_finite_loss": pa.float64(),
        "error": pa.string(),
        "curve": pa.list_(_CURVE),
        "norms": pa.list_(_NORMS),
        "audit": pa.list_(_AUDIT),
        "untouched": pa.list_(pa.string()),  # parameters that the init rule leaves as built
        "parameters": pa.int64(),
        "data_hash": pa.string(),
        "device": pa.string(),
        "deterministic": pa.bool_(),  # whether the bits are promised, see README
        "threads": pa.int64(),
        "version.initmem": pa.string(),
        "version.torch": pa.string(),
        "version.python": pa.string(),
        "run.host": pa.string(),
        "run.started": pa.string(),  # UTC
        "run.seconds": pa.float64(),  # of training, over all resumptions
        "run.resumed": pa.int64(),  # times training went on after a kill
        "run.repeated_steps": pa.int64(),  # steps trained twice because of one
    }
)

_NEEDED = ("arm", "cell", "draw", "replica", "seed", "memory_axis", "state")
_BINARY = [field.name for field in SCHEMA if field.type == pa.binary()]


def complete(row: Row) -> Row:
    """The row with every column of the schema, null where it has none."""
    unknown = set(row) - set(SCHEMA.names)
    assert not unknown, f"columns not in the schema: {sorted(unknown)}"
    return {name: row.get(name) for name in SCHEMA.names}


def to_text(row: Row) -> bytes:
    """One line of JSON; floats round-trip exactly, bytes as base64 of zlib."""
    packed = dict(row)
    for name in _BINARY:
        if packed.get(name):
            packed[name] = base64.b64encode(zlib.compress(packed[name])).decode()
    return json.dumps(packed, allow_nan=False, separators=(",", ":")).encode()


def from_text(text: bytes) -> Row | None:
    """The reverse of `to_text`, or None where the text holds no row."""
    try:
        row: Row = json.loads(text)
        for name in _BINARY:
            if row.get(name):
                row[name] = zlib.decompress(base64.b64decode(row[name]))
        row = complete({name: value for name, value in row.items() if name in SCHEMA.names})
    except (ValueError, TypeError, AttributeError, zlib.error):
        return None
    return None if any(row[name] is None for name in _NEEDED) else row


def table(rows: list[Row]) -> pa.Table:
    """Rows in a fixed order: arm, draw, then as trained."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)
