"""Machines of their own on this one, for root: network, process and mount namespaces on a bridge,
with an sshd in each. What is stopped in one of them is stopped nowhere else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BRIDGE, NET = "initmem0", "10.77.0"
HOME = Path("/srv")
"""The home folder of root on a machine; a folder of its own is mounted there."""
SHARED = Path("/mnt")
"""One folder that all machines share."""

# What process 1 of a machine does: mounts, a name, sshd. $1: its folder, $2: name, $3: address.
INIT = """
set -e
hostname "$2"
mount --bind "$1/home" {home} && mount --bind "$1/../shared" {shared}
mount --bind "$1/passwd" /etc/passwd && mount --bind "$1/../hosts" /etc/hosts
mount --bind "$1/tmp" /tmp && mount -t tmpfs tmpfs /run && mkdir /run/sshd
exec /usr/sbin/sshd -D -e -f /dev/null -o ListenAddress="$3" -o HostKey="$1/../host_key" \
    -o AuthorizedKeysFile="$1/../key.pub" -o StrictModes=no -o UsePAM=no -o PidFile=none
"""


@dataclass
class Machine:
    name: str
    address: str
    folder: Path
    process: subprocess.Popen[bytes]

    def lose(self) -> None:
        """As when its plug is pulled: all its processes end with the first one."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        call("ip", "link", "del", f"v{self.name}")
        call("ip", "netns", "del", self.name)


def call(*command: object, **options: object) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, **options)  # type: ignore[call-overload]  # of mixed options
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return str(done.stdout)


@contextmanager
def machines(folder: Path, names: list[str]) -> Iterator[list[Machine]]:
    """folder: with room for their homes, not below /tmp. `key` in it is the key of all of them."""
    for name in ("key", "host_key"):
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name)
    (folder / "shared").mkdir()
    addresses = {name: f"{NET}.{i}" for i, name in enumerate(names, start=2)}
    lines = ["127.0.0.1 localhost", *(f"{at} {name}" for name, at in addresses.items())]
    (folder / "hosts").write_text("\n".join(lines) + "\n")
    call("ip", "link", "add", BRIDGE, "type", "bridge")
    call("ip", "addr", "add", f"{NET}.1/24", "dev", BRIDGE)
    call("ip", "link", "set", BRIDGE, "up")
    found: list[Machine] = []
    try:
        for name, address in addresses.items():
            found.append(_machine(folder / name, name, address))
        yield found
    finally:
        for machine in found:
            if machine.process.poll() is None:
                machine.lose()
        call("ip", "link", "del", BRIDGE)


def _machine(folder: Path, name: str, address: str) -> Machine:
    for part in ("home/.ray", "tmp"):
        (folder / part).mkdir(parents=True)
    users = Path("/etc/passwd").read_text().splitlines()
    root = f"root:x:0:0:root:{HOME}:/bin/bash"
    users = [root if user.startswith("root:") else user for user in users]
    (folder / "passwd").write_text("\n".join(users) + "\n")
    call("ip", "netns", "add", name)
    call("ip", "link", "add", f"v{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
    call("ip", "link", "set", f"v{name}", "master", BRIDGE, "up")
    for words in (
        ["addr", "add", f"{address}/24", "dev", "eth0"],
        ["link", "set", "eth0", "up"],
        ["link", "set", "lo", "up"],
        ["route", "add", "default", "via", f"{NET}.1"],
    ):
        call("ip", "-n", name, *words)
    process = subprocess.Popen(
        [
            *("ip", "netns", "exec", name),
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts"),
            *("bash", "-c", INIT.format(home=HOME, shared=SHARED), "init", folder, name, address),
        ],
        stdout=subprocess.DEVNULL,
        stderr=open(folder / "sshd.log", "wb"),
    )
    return Machine(name, address, folder, process)


def python_at(machine: Machine, packages: list[str]) -> None:
    """A virtual environment at ~/venv that finds the packages of this one, so that pip has nothing
    to download. packages: folders of installed packages."""
    venv = machine.folder / "home/venv"
    call(sys.executable, "-m", "venv", venv)
    site = next((venv / "lib").glob("python*/site-packages"))
    (site / "here.pth").write_text("\n".join(packages) + "\n")
    for old in (*site.glob("setuptools*"), site / "pkg_resources"):
        shutil.rmtree(old)  # torch asks for a newer one, which is among the packages
    (machine.folder / "home/.bashrc").touch()
    ray = venv / "bin/ray"
    ray.write_text(f"#!{HOME}/venv/bin/python\nfrom ray.scripts.scripts import main\nmain()\n")
    ray.chmod(0o755)
    for script in (venv / "bin").glob("pip*"):
        script.write_text(script.read_text().replace(str(venv), f"{HOME}/venv"))


def wait_for_ssh(machine: Machine, key: Path) -> None:
    options = ["-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]
    for _ in range(50):
        if subprocess.run(
            ["ssh", "-q", *options, f"root@{machine.address}", "true"], check=False
        ).returncode == 0:  # fmt: skip
            return
        time.sleep(0.2)
    raise AssertionError((machine.folder / "sshd.log").read_text())


def possible() -> str | None:
    """What is missing here, or None."""
    if os.geteuid() != 0:
        return "not root"
    tools = ["ip", "unshare", "ssh", "ssh-keygen", "/usr/sbin/sshd", "rsync"]
    absent = [tool for tool in tools if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)}" if absent else None
