"""clusters/kuberay.yaml as Ray's autoscaler in the head's pod reads it, and what it cannot see."""

from __future__ import annotations

import re
from typing import Any

import ray
import yaml
from ray.autoscaler._private.kuberay.autoscaling_config import (
    _derive_autoscaling_config_from_ray_cr,
)

from tests.clusters.files import text_of

TEXT = text_of("clusters/kuberay.yaml")
CLUSTER, POLICY = yaml.safe_load_all(TEXT)
HEAD = CLUSTER["spec"]["headGroupSpec"]
(WORKER,) = CLUSTER["spec"]["workerGroupSpecs"]


def container(group: dict[str, Any]) -> dict[str, Any]:
    (only,) = group["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def test_the_autoscaler_reads_it() -> None:
    config = _derive_autoscaling_config_from_ray_cr(CLUSTER)
    kinds = config["available_node_types"]
    assert kinds["headgroup"]["resources"] == {"CPU": 0, "memory": 8 * 2**30}
    assert kinds["gpu-worker"]["resources"] == {"CPU": 4, "GPU": 1, "memory": 16 * 2**30}
    assert (kinds["gpu-worker"]["min_workers"], kinds["gpu-worker"]["max_workers"]) == (0, 8)
    assert config["idle_timeout_minutes"] == 5 and CLUSTER["spec"]["enableInTreeAutoscaling"]


def test_the_token_is_a_secret_for_every_container() -> None:
    assert CLUSTER["spec"]["authOptions"] == {"mode": "token", "secretName": "initmem-token"}
    assert "create secret generic initmem-token --from-literal=auth_token=" in TEXT


def test_the_dashboard_is_on_the_loopback_and_pods_talk_to_their_own_alone() -> None:
    assert HEAD["rayStartParams"]["dashboard-host"] == "127.0.0.1"
    ours = {"matchLabels": {"ray.io/cluster": CLUSTER["metadata"]["name"]}}
    assert POLICY["spec"]["podSelector"] == ours and POLICY["spec"]["policyTypes"] == ["Ingress"]
    assert POLICY["spec"]["ingress"] == [{"from": [{"podSelector": ours}]}]


def test_one_image_of_the_ray_that_is_tested_here() -> None:
    text = text_of("clusters/Dockerfile")
    tags = re.findall(r"^FROM rayproject/ray:(\S+)-py3\d+-gpu$", text, re.M)
    assert tags == [ray.__version__] == [CLUSTER["spec"]["rayVersion"]]
    assert container(HEAD)["image"] == container(WORKER)["image"] == "INITMEM-IMAGE"
    assert "pip install --no-cache-dir -c dist/versions.txt dist/initmem-*.whl" in text
