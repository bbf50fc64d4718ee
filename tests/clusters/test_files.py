"""What all cluster files have in common: Ray takes them, shells take their commands, what they
install is this checkout, and nobody comes in without the token."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import start

from tests.clusters.files import (
    COMMANDS,
    LAUNCHED,
    OTHERS,
    ROOT,
    commands_of,
    config_of,
    starts_of,
    text_of,
)

launched = pytest.mark.parametrize("name", LAUNCHED)


def test_every_file_is_checked() -> None:
    there = {f"clusters/{path.name}" for path in (ROOT / "clusters").iterdir()}
    assert there | {"cluster.yaml"} == {*LAUNCHED, *OTHERS}


@launched
def test_ray_takes_it(name: str) -> None:
    config = prepare_config(config_of(name))
    validate_config(config)
    asked = [kind["resources"] for kind in config["available_node_types"].values()]
    assert all(set(resources) <= {"CPU", "GPU"} for resources in asked), "`gpu` is no GPU to Ray"
    assert set(COMMANDS) <= set(config_of(name)), "what is left out is filled in by Ray"


@pytest.mark.parametrize("name", LAUNCHED[:2])
def test_a_head_that_drives_and_spot_workers_that_come_and_go(name: str) -> None:
    config = config_of(name)
    head, worker = (config["available_node_types"][kind] for kind in ("head", "gpu_worker"))
    assert head["resources"] == {"CPU": 0} and worker["resources"] == {"CPU": 4, "GPU": 1}
    assert (worker["min_workers"], worker["max_workers"]) == (0, config["max_workers"])
    assert "spot" in str(worker["node_config"]).lower() and config["idle_timeout_minutes"] == 5
    assert config["upscaling_speed"] >= config["max_workers"]


def test_a_local_cluster_counts_all_its_machines() -> None:
    """With autoscaler v2 and two workers, `ray up` leaves one of them out for ever."""
    head, _ = starts_of("clusters/on_premise.yaml")
    assert "RAY_enable_autoscaler_v2=0" in head


@launched
def test_a_shell_takes_every_command(name: str) -> None:
    for command in commands_of(name):
        subprocess.run(["bash", "-n", "-c", command], check=True)


@launched
def test_ray_takes_its_options(name: str) -> None:
    head, worker = (shlex.split(c.partition("ray start ")[2]) for c in starts_of(name))
    options = start.make_context("start", head).params
    assert options["head"] and options["port"] == 6379
    assert options["autoscaling_config"] == "~/ray_bootstrap_config.yaml"
    assert start.make_context("start", worker).params["address"] == "$RAY_HEAD_IP:6379"


@launched
def test_it_installs_this_checkout_and_the_versions_that_came_with_it(name: str) -> None:
    mounts = {Path(there).name: here for there, here in config_of(name)["file_mounts"].items()}
    assert mounts["dist"] == "dist" and (ROOT / mounts["studies"]).is_dir()
    assert all(here[0] == "~" for at, here in mounts.items() if at not in ("dist", "studies"))
    installs = [c for c in config_of(name)["setup_commands"] if "pip install" in c]
    newest = '"$(ls -t ~/dist/*.whl | head -n 1)"'
    assert f"-c ~/dist/versions.txt {newest} 'ray[default]'" in installs[0]
    # pip leaves an older build of the same version where it is
    assert installs[1].endswith(f"--force-reinstall --no-deps {newest}")
    assert len(installs) == 2


@launched
def test_nobody_joins_or_asks_without_the_token(name: str) -> None:
    assert [c.count("RAY_AUTH_MODE=token ray start") for c in starts_of(name)] == [1, 1]
    assert all(c.startswith("ulimit -n ") for c in starts_of(name))
    assert "RAY_AUTH_MODE=token" in config_of(name)["setup_commands"][-1], "for ray exec"
    home = "~" if "on_premise" in name else "/home/ubuntu"
    assert config_of(name)["file_mounts"][f"{home}/.ray/auth_token"] == "~/.ray/auth_token"


@launched
def test_the_dashboard_is_on_the_loopback(name: str) -> None:
    assert "--dashboard-host=127.0.0.1" in starts_of(name)[0]


@pytest.mark.parametrize("name", [*LAUNCHED, *OTHERS])
def test_no_file_opens_a_port_to_the_world(name: str) -> None:
    text = text_of(name)
    for word in ("0.0.0.0", "::/0", "IpPermissions", "LoadBalancer", "NodePort", "hostPort"):
        assert word not in text, word
    assert "disabled" not in text
    if name.endswith(".yaml"):
        assert list(yaml.safe_load_all(text))
