"""What does the driver of a study cost a block, and does that grow?

    python -m benchmarks.driver --blocks 1000
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import click

import initmem
from initmem.records.rows import Row, complete
from initmem.records.store import Store
from initmem.search.agenda import Agenda
from initmem.study.plan import Block
from initmem.study.spec import Study
from initmem.tune import trainable
from initmem.tune.block import head, label
from initmem.tune.cluster import ENVIRONMENT

STUDY = """
recipe:
  data: {name: digits, train: 60, validation: 40}
  model: {name: mlp, width: 16}
  init: {rule: kaiming}
  optim: {name: sgd, batch: 20, steps: 200}
  eval_every: 10
axes:
  init.scale: [1, 2]
ranges:
  optim.lr: {low: 1e-2, high: 1e-1, log: true}
  optim.l2: {low: 1e-4, high: 1e-1, log: true}
seeds: 2
search: {draws: 1}
"""


def loaded(folder: Path, *overrides: str) -> Study:
    path = folder / "driver.yaml"
    path.write_text(STUDY)
    return initmem.load_study(path, overrides)


def a_row(folder: Path) -> Row:
    of = loaded(folder)
    initmem.run(of, folder / "one", local=True)
    return Store(folder / "one").rows()[0]


def swapped(row: Row, seconds: float) -> type:
    from initmem.tune.trainable import BlockTrainable

    def at_once(study: Study, block: Block, store: Store, data: Path) -> Any:
        time.sleep(seconds)
        for replica in block.replicas:
            if store.done(replica) is None:
                store.put(complete({**row, **head(study, replica)}))
            yield {label(study, replica): row["curve"][-1]}

    class AtOnce(BlockTrainable):
        def setup(self, config: dict[str, Any]) -> None:
            from initmem.tune import trainable as worker

            worker.train_block = at_once
            super().setup(config)

    return AtOnce


class Segments:
    def __init__(self, run: Path, every: int) -> None:
        self.run, self.every, self.ended = run, every, 0
        self.paused = [0.0, 0.0]
        self.marks: list[dict[str, float]] = []

    def mark(self) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        files, size = 0, 0
        for folder, _, names in os.walk(self.run):
            files += len(names)
        state = [p.stat().st_size for p in Path("/").glob("nothing")]
        rss = int(Path('/proc/self/statm').read_text().split()[1]) * 4096 / 2**20
        m = dict(blocks=self.ended, cpu=cpu - self.paused[0], wall=wall - self.paused[1],
                 rss=rss, files=files, state=self.state())
        self.marks.append(m)
        if len(self.marks) > 1:
            a, b = self.marks[-2:]
            n = b["blocks"] - a["blocks"]
            click.echo(
                f"{b['blocks']:6} blocks  cpu {1e3 * (b['cpu'] - a['cpu']) / n:6.1f} ms  wall "
                f"{1e3 * (b['wall'] - a['wall']) / n:6.1f} ms  rss {rss:6.0f} MB  "
                f"files {files}  state {m['state'] / 1e6:.1f} MB  fds {len(os.listdir('/proc/self/fd'))}")
        self.paused[0] += time.process_time() - cpu
        self.paused[1] += time.perf_counter() - wall

    def state(self) -> float:
        import ray
        found = list(self.run.glob("tensorboard/experiment_state*"))
        node = ray._private.worker._global_node if ray.is_initialized() else None
        if node:
            found += list(Path(node.get_session_dir_path()).glob("artifacts/*/*/*/experiment_state*"))
        return sum(p.stat().st_size for p in found)


@click.command()
@click.option("--blocks", default=1000)
@click.option("--arms", default=1)
@click.option("--workers", default=2)
@click.option("--every", default=1000)
@click.option("--sampler", default="qmc")
@click.option("--seconds", default=0.0)
@click.option("--profile", default=None)
@click.option("--folder", default=None)
def main(blocks, arms, workers, every, sampler, seconds, profile, folder) -> None:
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(folder or temporary)
        import concurrent.futures, multiprocessing
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            row = pool.submit(a_row, place).result()
        from initmem.records.rows import to_text
        click.echo(f"row {len(to_text(row))} bytes")
        trainable.BlockTrainable = swapped(row, seconds)
        draws = blocks // arms
        over = [f"search.draws={draws}", f"search.sampler={sampler}"]
        if arms > 1:
            over.append("axes.optim.momentum=[" + ",".join(f"{0.9 * i / arms}" for i in range(arms)) + "]")
            over.append("optim.name=momentum")
        of = loaded(place, *over)
        seg = Segments(place / "run", every)
        finished = Agenda.finished

        def counted(self, block):
            if seg.ended == 0 and not seg.marks:
                pass
            finished(self, block)
            seg.ended += 1
            if seg.ended == 20 or seg.ended % every == 0:
                seg.mark()

        Agenda.finished = counted
        clock, cpu = time.perf_counter(), time.process_time()
        if profile:
            import cProfile
            p = cProfile.Profile()
            p.enable()
        summary = initmem.run(of, place / "run", workers=workers)
        if profile:
            p.disable()
            p.dump_stats(profile)
        click.echo(f"{summary.done} done, {summary.trained} trained, wall {time.perf_counter() - clock:.1f} cpu {time.process_time() - cpu:.1f}")


if __name__ == "__main__":
    main()
