"""cluster.yaml is what Ray's own schema accepts, and what the schema cannot see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

PATH = Path(__file__).parent.parent / "cluster.yaml"


@pytest.fixture
def config() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(PATH.read_text())
    return loaded


def test_ray_accepts_it(config: dict[str, Any]) -> None:
    validate_config(prepare_config(config))


def test_workers_are_gpu_machines_on_spot(config: dict[str, Any]) -> None:
    worker = config["available_node_types"]["gpu_worker"]
    assert worker["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert worker["resources"]["GPU"] >= 1, "a lowercase `gpu` would leave trials pending for ever"
    assert (worker["min_workers"], worker["max_workers"]) == (0, config["max_workers"])
    assert config["provider"]["type"] == "aws"


def test_setup_installs_this_package_and_pins_ray(config: dict[str, Any]) -> None:
    commands = "\n".join(config["setup_commands"])
    assert "pip install -e ~/initmem" in commands and "ray[default,tune]==" in commands
    assert config["file_mounts"]["/home/ubuntu/initmem"] == "."
    assert "s3fs INITMEM-BUCKET /mnt/initmem" in commands


def test_nothing_is_open_to_the_world(config: dict[str, Any]) -> None:
    start = "\n".join(config["head_start_ray_commands"] + config["worker_start_ray_commands"])
    assert start.count("RAY_AUTH_MODE=token") == 2 and "--dashboard-host=127.0.0.1" in start
    assert "/home/ubuntu/.ray/auth_token" in config["file_mounts"]
    assert "0.0.0.0" not in PATH.read_text()
