"""Whether a node has what the driver has, looked at by each worker before it trains: the same code
and torch, the same run, the same data.

A node that differs gets no work; who runs the study is told which and why.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import torch

import initmem
from initmem.data.load import check, load, paths, receive
from initmem.records.store import Store
from initmem.study.spec import UserError
from initmem.tune.owner import signature


class Unfit(UserError):
    """This node differs from the driver's; another may not."""


@dataclass(frozen=True)
class Expected:
    """What every worker must find."""

    device: str
    versions: dict[str, str]
    owner: dict[str, Any]
    """The driver's signature in the run."""
    hashes: dict[Any, str] = field(default_factory=dict)
    """Data section -> hash of its Dataset, where other nodes may take part."""
    files: dict[str, Any] = field(default_factory=dict)
    """Path below the data folder -> Ray's reference to its content, likewise."""


def expected(
    store: Store, sections: Iterable[Any], data: Path, device: str, several: bool
) -> Expected:
    """As the driver has it. several: whether other nodes than the driver's may take part."""
    sections = list(sections) if several else []
    hashes = {section: load.__wrapped__(section, data).hash for section in sections}
    names = {path for section in sections for path in paths(section)}
    files = {name: ray.put((data / name).read_bytes()) for name in sorted(names)}
    return Expected(device, versions(), signature(store.files), hashes, files)


def admit(wanted: Expected, store: Store) -> None:
    """Raises Unfit unless this process has the driver's code, run and kind of device."""
    found = versions()
    for name, there in wanted.versions.items():
        if found[name] != there:
            raise Unfit(
                f"has {name} {found[name]}, the driver {there}: install the same on all nodes"
            )
    if signature(store.files) != wanted.owner:
        raise Unfit(
            f"does not see the driver's run at {store.address}: use a folder that all nodes "
            f"share, or a bucket (--run s3://...)"
        )
    if wanted.device == "cuda" and not torch.cuda.device_count():
        raise Unfit("has no GPU that torch can use, and the study is trained on GPUs")


def provide(wanted: Expected, section: Any, data: Path) -> None:
    """See that this node has a data set, and the driver's. Raises Unfit if it cannot have it."""
    try:
        if wanted.files:
            _receive(wanted, section, data)
        found = load(section, data).hash
    except UserError as error:
        raise Unfit(*str(error).splitlines()) from None
    if found != wanted.hashes.get(section, found):
        there = wanted.hashes[section]
        raise Unfit(f"makes other data of {section.name}: {found}, the driver {there}")


def _receive(wanted: Expected, section: Any, data: Path) -> None:
    try:
        check(section, data)
    except UserError:
        receive(section, data, lambda path: ray.get(wanted.files[path]))


def versions() -> dict[str, str]:
    """Of what the bits of a row depend on."""
    minor = ".".join(platform.python_version_tuple()[:2])
    # A CPU's and a GPU's build of one torch (2.14.1+cpu, 2.14.1+cu128) are the same version.
    torch_version = str(torch.__version__).partition("+")[0]
    return {"initmem": _code(), "torch": torch_version, "Python": minor}


@functools.cache
def _code() -> str:
    """Version and a hash of the files, for a checkout has the version of the last release."""
    folder, content = Path(initmem.__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return f"{initmem.__version__} ({content.hexdigest()[:8]})"
