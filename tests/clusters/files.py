"""The files of clusters, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
LAUNCHED = ("cluster.yaml", "clusters/gcp.yaml", "clusters/on_premise.yaml")
"""For `ray up`."""
OTHERS = ("clusters/Dockerfile", "clusters/kuberay.yaml", "clusters/slurm.sh")
COMMANDS = (
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands",
    "head_start_ray_commands", "worker_start_ray_commands",
)  # fmt: skip


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def config_of(name: str) -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(text_of(name))
    return config


def commands_of(name: str) -> Iterator[str]:
    for part in COMMANDS:
        yield from config_of(name)[part]


def starts_of(name: str) -> list[str]:
    """The commands that start Ray, on the head and on the others."""
    return [command for command in commands_of(name) if "ray start" in command]
