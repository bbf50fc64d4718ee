"""`ray up clusters/on_premise.yaml` for real, on three machines that are namespaces of this one
(machines.py), over ssh and rsync; for root:

    python -m tests.clusters.on_premise

A study runs by `ray exec` and loses a machine in the middle; another is submitted as a job whose
terminal closes; `ray down` stops the cluster, and nothing else. Takes seven minutes. It needs
Debian's openssh-server and rsync, and ray[default], if need be in a folder of its own that
INITMEM_PACKAGES names (site-packages).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from initmem.records.store import Store
from tests.clusters.machines import SHARED, Machine, machines, possible, python_at, wait_for_ssh

ROOT = Path(__file__).parent.parent.parent
STUDY = "studies/digits.yaml"
SMALL = "--workers 6 --set optim.epochs=20 --set search.draws=4"


class Laptop:
    """The machine that `ray up` is called on: a home and a Ray folder of its own, this checkout's
    files, no Ray that runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, time.monotonic()
        self.environment = {**os.environ, "HOME": str(folder), "RAY_TMPDIR": str(folder / "ray")}
        self.environment |= {"RAY_AUTH_MODE": "token", "PYTHONPATH": str(ROOT)}
        for name in ("dist", "studies"):
            shutil.copytree(ROOT / name, folder / name)

    def said(self, *command: str, status: int = 0) -> str:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, text=True, check=False,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        print(f"--- {time.monotonic() - self.clock:.0f} s: {' '.join(command)}\n{done.stdout}")
        assert done.returncode == status, f"exit status {done.returncode}"
        return done.stdout

    def on_head(self, command: str, status: int = 0) -> str:
        return self.said("ray", "exec", "mine.yaml", command, status=status)


def filled_in(head: Machine, workers: list[Machine], key: Path) -> str:
    """The file of the repository with addresses, user and key: no command of it is changed."""
    text = (ROOT / "clusters/on_premise.yaml").read_text()
    text = text.replace("INITMEM-HEAD", head.address).replace("INITMEM-USER", "root")
    for i, worker in enumerate(workers, start=1):
        text = text.replace(f"INITMEM-WORKER-{i}", worker.address)
    text = text.replace("~/.ssh/id_ed25519", str(key))
    assert "INITMEM-" not in text
    return text


def untimed(store: Store) -> list[dict[str, object]]:
    """What a study promises to be the same, wherever it runs and whatever happens to it."""
    rows = sorted(store.rows(), key=lambda row: row["replica"])
    return [{k: v for k, v in row.items() if not k.startswith("run.")} for row in rows]


def walk(folder: Path, found: list[Machine]) -> None:
    head, workers = found[0], found[1:]
    packages = [p for p in sys.path if p.endswith("site-packages")]
    for machine in found:
        python_at(machine, [*packages, os.environ.get("INITMEM_PACKAGES", "")])
        wait_for_ssh(machine, folder / "key")
    laptop = Laptop(folder / "laptop")
    (laptop.folder / "mine.yaml").write_text(filled_in(head, workers, folder / "key"))

    laptop.said("ray", "get-auth-token", "--generate")
    laptop.said("ray", "up", "--yes", "mine.yaml")
    status = ""
    while "3 local.cluster.node" not in status:
        time.sleep(5)
        status = laptop.on_head("ray status")
        assert time.monotonic() - laptop.clock < 300, "the workers did not come"

    command = f"initmem run {STUDY} --address auto --run {SHARED}/first {SMALL}"
    run = subprocess.Popen(
        ["ray", "exec", "mine.yaml", command], cwd=laptop.folder, env=laptop.environment
    )
    first = Store(folder / "shared/first")
    while workers[1].name not in {row["run.host"] for row in first.rows()}:
        time.sleep(1)
        assert run.poll() is None, "ended before a machine was lost"
    workers[1].lose()
    print(f"--- {time.monotonic() - laptop.clock:.0f} s: {workers[1].name} is gone", flush=True)
    assert run.wait(timeout=300) == 0
    hosts = {row["run.host"] for row in first.rows()}
    assert len(first.rows()) == 32 and hosts == {m.name for m in found}, hosts
    laptop.on_head(f"initmem status {SHARED}/first")

    submit = f"ray job submit --address http://127.0.0.1:8265 --no-wait -- initmem run {STUDY}"
    job = laptop.on_head(f"{submit} --run {SHARED}/second {SMALL}")
    name = re.findall(r"raysubmit_\w+", job)[0]
    second = ""
    while "32 of 32 replicas" not in second:
        time.sleep(10)
        second = laptop.on_head(f"initmem status {SHARED}/second")
        assert time.monotonic() - laptop.clock < 600, "the job does not end"
    assert untimed(first) == untimed(Store(folder / "shared/second"))
    job = laptop.on_head(f"sleep 5; ray job status --address http://127.0.0.1:8265 {name}")
    assert f"'{name}' succeeded" in job
    refused = "RAY_AUTH_TOKEN=0123 ray job list --address http://127.0.0.1:8265"
    assert "uthentication" in laptop.on_head(refused, status=1)
    laptop.said("ray", "down", "--yes", "mine.yaml")


def main() -> None:
    if missing := possible():
        sys.exit(missing)
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    (folder / "laptop").mkdir()
    bystander = subprocess.Popen(["bash", "-c", "exec -a raylet sleep 3600"])
    try:
        with machines(folder, ["head", "worker1", "worker2"]) as found:
            walk(folder, found)
        assert bystander.poll() is None, "ray down has stopped what was not its own"
    finally:
        bystander.kill()
        print(f"homes, logs and rows: {folder}")


if __name__ == "__main__":
    main()
