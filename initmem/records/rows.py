"""The row a replica leaves: a declared schema, and its text form in a record.

Accuracies are in percent, losses in nats, seconds in wall time; of regression (data of kind
vector), accuracies are in percent of the targets' mean square that is explained, 100 (1 - MSE /
mean square), losses are mean squared errors, and predictions are not kept; of pairs, see
study/preference_data.py for accuracies and training/objective.py for losses. Columns that start
with `run.` tell of the run (when, where, how long) and may differ between two runs of one study;
all others are bitwise the same for the same recipe, seed, threads and kind of device.
"""

from __future__ import annotations

import base64
import json
import math
import re
import typing
import zlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pydantic import ValidationError

from initmem.memory import STATES
from initmem.study.messages import recipe_problem
from initmem.study.recipe import (
    Recipe,
    base_type,
    discriminator,
    field_types,
    flatten,
    variants,
)
from initmem.study.resources_section import MAX_THREADS
from initmem.study.spec import cut

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
    "test_predictions": pa.binary(),  # a byte an answer: the predicted class
    "ood_accuracy": pa.float64(),  # out of distribution, by the answers of understanding
    "symmetric_accuracy": pa.float64(),  # and by those of knowing pairs by heart
    "alignment": pa.float64(),  # of on-target neurons: mean cosine to the limit of their arm
}

_CURVE = pa.struct({n: kind for n, kind in _PREDICTOR.items() if not n.startswith("test_")})
_READING = pa.struct(
    {
        "step": pa.int64(),
        "probe": pa.string(),
        "quantity": pa.string(),
        "where": pa.string(),  # the layer, tensor or batch that was read
        "value": pa.float64(),
    }
)
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
        "steps_to_train": pa.int64(),  # first evaluation with the share of `steps_to.train`
        "steps_to_validation": pa.int64(),  # null: not within the budget
        "aligned_step": pa.int64(),  # first evaluation with `optim.stop_alignment`; or null
        **{f"selected.{name}": kind for name, kind in _PREDICTOR.items()},
        **{f"final.{name}": kind for name, kind in _PREDICTOR.items()},
        "loss_tenth_before": pa.float64(),  # mean batch loss, last but one tenth of the budget
        "loss_last_tenth": pa.float64(),
        "diverged_step": pa.int64(),  # of two trainings, in the first if `first.state` says so
        "last_finite_loss": pa.float64(),
        "first.state": pa.string(),  # of the first of two trainings, at its end
        "first.steps": pa.int64(),
        "first.train_accuracy": pa.float64(),
        "first.train_loss": pa.float64(),
        "first.validation_accuracy": pa.float64(),
        "first.validation_loss": pa.float64(),
        "first.ood_accuracy": pa.float64(),
        "first.symmetric_accuracy": pa.float64(),
        "error": pa.string(),
        "curve": pa.list_(_CURVE),
        "norms": pa.list_(_NORMS),
        "readings": pa.list_(_READING),  # of the recipe's probes
        "cosines": pa.binary(),  # k x k int8, hundredths: of rows of the final first hidden matrix
        "confidences": pa.binary(),  # float16 [layers, N]: of each training example's random label
        "audit": pa.list_(_AUDIT),
        "untouched": pa.list_(pa.string()),  # parameters that the init rule leaves as built
        "assigned": pa.list_(pa.string()),  # and that it sets by a formula, without chance
        "parameters": pa.int64(),
        "data_hash": pa.string(),
        "device": pa.string(),
        "deterministic": pa.bool_(),  # whether the bits are promised, see README
        "engine": pa.string(),  # loop, batched or graph
        "threads": pa.int64(),
        "version.initmem": pa.string(),
        "version.torch": pa.string(),
        "version.python": pa.string(),
        "run.host": pa.string(),
        "run.started": pa.string(),  # UTC
        "run.seconds": pa.float64(),  # of training, over all resumptions
        "run.probing": pa.float64(),  # seconds of it for probes
        "run.resumed": pa.int64(),  # times training went on after a kill
        "run.repeated_steps": pa.int64(),  # steps trained twice because of one
        "run.gpus": pa.float64(),  # of its block, a share of one or whole ones; null on a CPU
        "run.host_peak": pa.int64(),  # bytes, the most that its process held since it began
        "run.gpu_peak": pa.int64(),  # bytes, the most that torch held on the GPU for its team
    }
)

_COLUMNS = SCHEMA.names
_NEEDED = ("arm", "cell", "draw", "replica", "seed", "memory_axis", "state")
_WORDS = {
    pa.int64(): "a whole number",
    pa.float64(): "a number",
    pa.bool_(): "true or false",
    pa.string(): "text",
    pa.binary(): "packed bytes",
}
_BINARY = [field.name for field in SCHEMA if field.type == pa.binary()]


def complete(row: Row) -> Row:
    """The row with every column of the schema, null where it has none."""
    unknown = set(row) - set(_COLUMNS)
    assert not unknown, f"columns not in the schema: {sorted(unknown)}"
    return {name: row.get(name) for name in _COLUMNS}


def to_text(row: Row) -> bytes:
    """One line of JSON; floats round-trip exactly, bytes as base64 of zlib."""
    packed = dict(row)
    for name in _BINARY:
        if packed.get(name):
            packed[name] = base64.b64encode(zlib.compress(packed[name])).decode()
    return json.dumps(packed, allow_nan=False, separators=(",", ":")).encode()


def from_text(text: bytes) -> Row:
    """The reverse of `to_text`; a field of the recipe that the text lacks, for it is younger than
    the record, has its default. Raises ValueError, naming the column, where the text holds no row
    of this version, with every value of its column's type and a recipe that can be trained."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(found, dict):
        raise ValueError("no row")
    row: Row = {name: found.get(name) for name in _COLUMNS}
    for name in _BINARY:
        try:
            row[name] = row[name] and zlib.decompress(base64.b64decode(row[name]))
        except (ValueError, TypeError, zlib.error):
            raise ValueError(f"{name}: must be {_WORDS[pa.binary()]}") from None
    for name, value in row.items():
        wrong = name in _NEEDED if value is None else not _FITS[name](value)
        if wrong:
            kind = _WORDS.get(SCHEMA.field(name).type, "a list in the form of this version")
            raise ValueError(f"{name}: must be {kind}, got {cut(repr(value), 40)}")
    _check(row)
    if not found.keys() >= field_types().keys():
        resolved = flatten(recipe_of(row))
        row |= {name: value for name, value in resolved.items() if name not in found}
    return row


def _fits(kind: pa.DataType) -> Callable[[Any], bool]:
    """Whether a column of this type takes a value as it is; in a list, a real number that was not
    finite is null."""
    if pa.types.is_list(kind):
        item = _fits(kind.value_type)
        return lambda value: isinstance(value, list) and all(map(item, value))
    if pa.types.is_struct(kind):
        fits = {field.name: _fits(field.type) for field in kind}
        reals = {field.name for field in kind if field.type == pa.float64()}
        return lambda value: (
            isinstance(value, dict)
            and all(
                name in reals if value.get(name) is None else fit(value[name])
                for name, fit in fits.items()
            )
        )
    return {
        pa.int64(): _is_whole,
        pa.float64(): lambda value: (
            math.isfinite(value) if isinstance(value, float) else _is_whole(value)
        ),
        pa.string(): lambda value: isinstance(value, str) and not _SURROGATE.search(value),
        pa.bool_(): lambda value: isinstance(value, bool),
        pa.binary(): lambda value: isinstance(value, bytes),
    }[kind]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


_SURROGATE = re.compile("[\ud800-\udfff]")
_FITS = {field.name: _fits(field.type) for field in SCHEMA}


def _check(row: Row) -> None:
    """What the types do not say. Raises ValueError."""
    if row["state"] not in STATES:
        raise ValueError(f"state: must be one of {', '.join(STATES)}, got {row['state']!r}")
    if row["memory_axis"] not in field_types() or row[row["memory_axis"]] is None:
        raise ValueError(f"memory_axis: the row has no value of {row['memory_axis']}")
    if row["threads"] is not None and not 1 <= row["threads"] <= MAX_THREADS:
        raise ValueError(f"threads: must be 1 to {MAX_THREADS}, got {row['threads']}")
    try:
        recipe_of(row)
    except ValidationError as error:
        first = recipe_problem(error.errors(include_url=False)[0], {}, {(): "record"})
        raise ValueError(f"{first.field}: {first.text}") from None


def recipe_of(row: Row) -> Recipe:
    """The recipe that a row keeps, whatever a study says today."""
    nested: Row = {}
    for field in field_types():
        section, _, name = field.partition(".")
        if row[field] is None and not _says_null(row, section, name):
            continue  # of another variant, or null by default
        if name:
            nested.setdefault(section, {})[name] = row[field]
        else:
            nested[section] = row[field]
    return Recipe.model_validate(nested)


def _says_null(row: Row, section: str, name: str) -> bool:
    """Whether null is a value of its own for a field of the row's variant, as in a full batch."""
    named = row.get(f"{section}.{discriminator(section)}") if name else None
    variant = variants(section).get(named) if named else None
    field = variant.model_fields.get(name) if variant else None
    if field is None or field.default is None:
        return False
    return type(None) in typing.get_args(field.annotation)


def table(rows: list[Row]) -> pa.Table:
    """Rows in a fixed order: arm, draw, then as trained."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)
