"""cluster.yaml, as Ray asks EC2 for it: a server of moto answers in this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator
from moto import mock_aws
from ray.autoscaler._private.aws.config import bootstrap_aws
from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
from ray.autoscaler._private.util import prepare_config

from tests.clusters.files import config_of, text_of

SSH_FROM = "198.51.100.7/32"


@pytest.fixture
def ec2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("HOME", str(tmp_path))  # Ray puts its key there
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        for profile in ("initmem-head", "initmem-worker"):
            boto3.client("iam").create_instance_profile(InstanceProfileName=profile)
        yield boto3.client("ec2", config_of("cluster.yaml")["provider"]["region"])


def group(ec2: Any) -> str:
    """The security group that docs/cluster.md makes."""
    name = ec2.create_security_group(GroupName="initmem", Description="initmem")["GroupId"]
    ssh = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": SSH_FROM}]}
    inside = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": name}]}
    ec2.authorize_security_group_ingress(GroupId=name, IpPermissions=[ssh, inside])
    return str(name)


def filled_in(ec2: Any) -> dict[str, Any]:
    image = ec2.describe_images()["Images"][0]["ImageId"]
    text = text_of("cluster.yaml").replace("INITMEM-IMAGE", image)
    config: dict[str, Any] = yaml.safe_load(text.replace("INITMEM-GROUP", group(ec2)))
    return config


def test_every_field_of_a_machine_is_one_of_ec2s() -> None:
    shape = boto3.session.Session(region_name="us-west-2").client("ec2").meta.service_model
    asked = shape.operation_model("RunInstances").input_shape
    for kind in config_of("cluster.yaml")["available_node_types"].values():
        machine = {**kind["node_config"], "MinCount": 1, "MaxCount": 1}
        assert not ParamValidator().validate(machine, asked).has_errors()
        machine["InstanceMarketOption"] = {}
        assert ParamValidator().validate(machine, asked).has_errors()


def test_ray_gets_the_machines_it_asks_for(ec2: Any) -> None:
    config = bootstrap_aws(prepare_config(filled_in(ec2)))
    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    for kind, count in (("head", 1), ("gpu_worker", 1)):
        asked = config["available_node_types"][kind]["node_config"]
        provider.create_node(asked, {"kind": kind}, count)
    got = [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]]
    kinds = [(i["InstanceType"], i.get("InstanceLifecycle")) for i in got]
    assert kinds == [("m6i.large", None), ("g5.xlarge", "spot")]
    profiles = [i["IamInstanceProfile"]["Arn"].rpartition("/")[2] for i in got]
    assert profiles == ["initmem-head", "initmem-worker"]


def test_the_only_port_from_outside_is_ssh_from_one_address(ec2: Any) -> None:
    config = bootstrap_aws(prepare_config(filled_in(ec2)))
    used = {g for t in config["available_node_types"].values()
            for g in t["node_config"]["SecurityGroupIds"]}  # fmt: skip
    rules = ec2.describe_security_groups(GroupIds=list(used))["SecurityGroups"]
    assert len(rules) == 1
    open_to = [(r.get("FromPort"), a["CidrIp"]) for r in rules[0]["IpPermissions"]
               for a in r["IpRanges"]]  # fmt: skip
    assert open_to == [(22, SSH_FROM)]


def test_a_group_that_is_not_filled_in_starts_nothing(ec2: Any) -> None:
    with pytest.raises((ClientError, AssertionError, SystemExit)):
        bootstrap_aws(prepare_config(config_of("cluster.yaml")))
    assert not ec2.describe_instances()["Reservations"]
