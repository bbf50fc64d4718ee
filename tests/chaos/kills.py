"""Processes that are killed, stopped and asked to end."""

from __future__ import annotations

import os
import signal
import time

from initmem.records.store import Store
from initmem.study.plan import count
from tests.chaos.scene import Line, Scene, read, wait_for_training
from tests.tune.driving import cluster, descendants, driver, said, workers_of


def driver_killed(scene: Scene, kills: int) -> Line:
    """SIGKILL of the driver's process group, at random moments once it trains."""
    run = scene.folder / "driver"
    injected = 0
    while injected < kills and len(Store(run).names()) < count(scene.study):
        with driver(run, scene.path) as process:
            wait_for_training(run, process)
            time.sleep(scene.dice.uniform(0, 1.5))
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                injected += 1
    scene.finish(run)
    return scene.held_against(run, "SIGKILL of the driver's group", injected)


def worker_killed(scene: Scene) -> Line:
    """SIGKILL of every worker, once."""
    return _worker(scene, signal.SIGKILL, 0)


def worker_stopped(scene: Scene) -> Line:
    """SIGSTOP of every worker, SIGCONT a minute later."""
    return _worker(scene, signal.SIGSTOP, 60)


def _worker(scene: Scene, number: int, pause: float) -> Line:
    name = signal.Signals(number).name
    run = scene.folder / name
    with driver(run, scene.path) as process:
        wait_for_training(run, process)
        hit = workers_of(process)
        for pid in hit:
            os.kill(pid, number)
        time.sleep(pause)
        for pid in hit if number == signal.SIGSTOP else []:
            os.kill(pid, signal.SIGCONT)
        assert process.wait(timeout=300) == 0, said(run)
    return scene.held_against(run, f"{name} of workers", len(hit))


def worker_killed_by_one_replica(scene: Scene) -> Line:
    """A worker dies whenever it trains one certain replica: that one is failed, the rest is
    trained, and --retry-failed trains it once it can live."""
    run, lost = scene.folder / "poison", 0
    replica = sorted(name for name in Store(scene.folder / "undisturbed").names())[0]
    meter = run / "checkpoints" / replica / "meter"
    options = "--set", "resources.checkpoint_every=100000", "--set", "resources.retries=1"
    with driver(run, scene.path, *options) as process:
        while process.poll() is None:
            before = read(meter)
            time.sleep(0.05)
            if before is not None and read(meter) not in (None, before):
                for pid in workers_of(process):
                    os.kill(pid, signal.SIGKILL)
                    lost += 1
                time.sleep(0.5)
        assert process.returncode == 1, said(run)
    failed = [row for row in Store(run).rows() if row["state"] == "failed"]
    assert replica in [row["replica"] for row in failed] and len(failed) <= 2, said(run)
    assert all("worker lost 2 times: " in row["error"] for row in failed), failed
    with driver(run, scene.path, "--retry-failed") as process:
        assert process.wait(timeout=300) == 0, said(run)
    return scene.held_against(run, "worker dies in one replica", lost)


def raylet_killed(scene: Scene) -> Line:
    """The raylet of the driver's own node: noticed within a minute, and said."""
    return _ray_dies(scene, "raylet/raylet")


def head_killed(scene: Scene) -> Line:
    """The head (Ray's GCS) likewise."""
    return _ray_dies(scene, "gcs/gcs_server")


def _ray_dies(scene: Scene, program: str) -> Line:
    name = program.rpartition("/")[2]
    run = scene.folder / name
    with driver(run, scene.path) as process:
        wait_for_training(run, process)
        below = descendants(process.pid)
        for pid in [pid for pid, args in below.items() if program in args]:
            os.kill(pid, signal.SIGKILL)
        assert process.wait(timeout=60) == 2, said(run)
    assert "ray: its raylet or head died; the same command goes on" in said(run)
    scene.finish(run)
    return scene.held_against(run, f"SIGKILL of {name}", 1)


def node_killed(scene: Scene) -> Line:
    """The second node of a cluster of two goes away: its block moves to the first."""
    run = scene.folder / "node"
    with cluster({"num_cpus": 1}, {"num_cpus": 1}) as nodes:
        second = nodes.list_all_nodes()[-1]
        with driver(run, scene.path, "--address", nodes.address) as process:
            wait_for_training(run, process)
            deadline = time.monotonic() + 60
            while len(list(run.glob("checkpoints/*/meter"))) < 2:  # a block on each node
                assert time.monotonic() < deadline and process.poll() is None, said(run)
                time.sleep(0.02)
            second.kill_raylet()
            assert process.wait(timeout=300) == 0, said(run)
    assert "given to another" in said(run)
    return scene.held_against(run, "raylet of a second node", 1)


def signalled(scene: Scene, number: int) -> Line:
    """A signal ends the run within ten seconds, and leaves no Ray process behind."""
    run = scene.folder / f"signal{number}"
    with driver(run, scene.path) as process:
        wait_for_training(run, process)
        below = descendants(process.pid)
        clock = time.monotonic()
        process.send_signal(number)
        status = process.wait(timeout=60)
        assert time.monotonic() - clock < 10, "slower than ten seconds"
    assert status == (130 if number == signal.SIGINT else 143), said(run)
    assert not set(below) & set(descendants(1)), "a Ray process is left behind"
    scene.finish(run)
    return scene.held_against(run, f"{signal.Signals(number).name} of the driver", 1)


def two_drivers(scene: Scene) -> Line:
    """The second is refused with host, pid and start of the first, which goes on."""
    run = scene.folder / "two"
    with driver(run, scene.path) as first:
        wait_for_training(run, first)
        with driver(run, scene.path) as second:
            assert second.wait(timeout=60) == 2, said(run)
        refusal = (
            f"run: another driver runs it (host {os.uname().nodename}, pid {first.pid}, since"
        )
        assert refusal in said(run)
        assert first.wait(timeout=300) == 0, said(run)
    return scene.held_against(run, "second driver", 1)
