"""Rows that were trained once on a known kind of CPU, as hashes: what training computes there.

    python -m tests.training.golden              add the hashes of this kind of CPU
    python -m tests.training.golden --replace    put others in their place

golden.json lists the columns that are hashed, so a column that the schema gets later changes
nothing. Not among them is what may differ between two machines of a kind, or two versions.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import torch

import initmem
from initmem.records.rows import SCHEMA, Row
from initmem.records.store import Store
from initmem.study.load import load
from initmem.study.recipe import Recipe, flatten
from tests.tiny import recipe

PATH = Path(__file__).parent / "golden.json"
HASHED = 12
"""Hex digits kept of a SHA-256."""


def _optim(name: str, lr: float, **fields: object) -> dict[str, object]:
    return {"name": name, "lr": lr, "batch": 20, "steps": 30, **fields}


RESNET9 = {"name": "resnet9", "width": 4}
RESNET20 = {"name": "resnet20", "width": 4, "norm": "group"}
BARE = {"name": "resnet9", "width": 4, "norm": "none", "downsample": "average"}
TRANSFORMER = {"name": "transformer", "width": 16}

RECIPES = {
    "resnet9-momentum": recipe(
        model=RESNET9, optim=_optim("momentum", 0.05, l2=1e-3, schedule="cosine", warmup=3)
    ),
    "resnet20-group-adamw": recipe(model=RESNET20, optim=_optim("adamw", 0.01, weight_decay=0.1)),
    "resnet9-augmented-rmsprop": recipe(
        model=BARE, data={"crop": 1, "flip": True}, optim=_optim("rmsprop", 1e-3)
    ),
    "mlp-sgd-clip": recipe(model={"depth": 2}, optim=_optim("sgd", 0.1, l2=0.01, clip=1.0)),
    "transformer-adamw-full-batch": recipe(
        data={"name": "modular", "p": 7},
        model=TRANSFORMER,
        optim=_optim("adamw", 0.01, batch=None, weight_decay=1.0),
    ),
    "mlp-bf16": recipe(precision="bf16"),
    "resnet9-bf16": recipe(
        precision="bf16", model=RESNET9, optim=_optim("momentum", 0.05, nesterov=True)
    ),
    "resnet20-muon": recipe(model=RESNET20, optim=_optim("muon", 0.01, weight_decay=0.1)),
    "mlp-adam-window": recipe(
        optim=_optim("adam", 0.01, batch=7, l2=0.01, decay_window="5-17", clip=2.0)
    ),
}


def key() -> str:
    """The kind of this CPU, and torch: what the bits of a training in one thread depend on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if sys.platform == "linux" else []
    told = {n.strip(): v.strip() for n, _, v in (line.partition(":") for line in lines)}
    named = [told.get(name, "?") for name in ("vendor_id", "cpu family", "model")]
    version = ".".join(str(torch.__version__).split(".")[:2])
    return f"{' '.join(named)}, {torch.backends.cpu.get_cpu_capability()}, torch {version}"


def columns() -> list[str]:
    """Those of today's schema that are to be hashed; a field of a list's items is list/field."""
    names = []
    for field in SCHEMA:
        if field.name.startswith(("run.", "version.")) or field.name == "device":
            continue
        items = field.type.value_type if pa.types.is_list(field.type) else None
        fields = items if items is not None and pa.types.is_struct(items) else []
        names += [f"{field.name}/{item.name}" for item in fields] or [field.name]
    return names


def digest(rows: Sequence[Row], names: Sequence[str]) -> str:
    """Of these columns of the rows; repr tells floats of different bits apart, and -0.0."""
    content = hashlib.sha256()
    for row in rows:
        for name in names:
            column, _, field = name.partition("/")
            value: Any = row[column]
            if field and value is not None:
                value = [item[field] for item in value]
            content.update(f"{name} {value!r}\n".encode())
    return content.hexdigest()[:HASHED]


def trained(of: Recipe, folder: Path) -> list[Row]:
    """Two scales and two seeds of a recipe, trained in this process."""
    fields = {k: v for k, v in flatten(of).items() if v is not None and k != "init.scale"}
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        section, _, field = name.partition(".")
        if field:
            nested.setdefault(section, {})[field] = value
        else:
            nested[section] = value
    # A null, such as of a full batch, is no default of its field.
    nested["optim"]["batch"] = of.optim.batch
    path = folder / "golden.yaml"
    path.write_text(json.dumps({"recipe": nested, "axes": {"init.scale": [0.5, 1]}, "seeds": 2}))
    run = folder / "run"
    initmem.run(load(path), run, local=True)
    return Store(run).rows()


def write(path: Path, of: str, hashes: dict[str, str], replace: bool) -> None:
    """Keep the hashes of a key. Raises click.ClickException where the key has others, unless they
    are to be replaced."""
    known = json.loads(path.read_text()) if path.exists() else {"columns": columns(), "kinds": {}}
    old = known["kinds"].get(of, {})
    other = [name for name in old if name in hashes and old[name] != hashes[name]]
    if other and not replace:
        raise click.ClickException(
            f"{of}: {', '.join(other)}: trains to other rows than {path.name} has; --replace if "
            f"that is meant"
        )
    known["kinds"][of] = hashes
    known["kinds"] = dict(sorted(known["kinds"].items()))
    path.write_text(json.dumps(known, indent=1) + "\n")


@click.command()
@click.option("--replace", is_flag=True, help="Even where this kind of CPU has other hashes.")
def main(replace: bool) -> None:
    names = json.loads(PATH.read_text())["columns"] if PATH.exists() else columns()
    hashes = {}
    for name, of in RECIPES.items():
        with tempfile.TemporaryDirectory() as folder:
            hashes[name] = digest(trained(of, Path(folder)), names)
        click.echo(f"{hashes[name]}  {name}")
    write(PATH, key(), hashes, replace)


if __name__ == "__main__":
    main()
