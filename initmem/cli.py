"""The command line: validate, plan, run, status, export, rerun, fetch.

ray and torch are imported by the verbs that train, so that all others answer at once.
"""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from initmem.forecast import early, many, outline, resolution, size
from initmem.study.load import load
from initmem.study.plan import arms, asked_by, count
from initmem.study.spec import UserError, one_line, told

SET = click.option(
    "--set", "overrides", multiple=True, metavar="FIELD=VALUE",
    help="Replace a field of the study, for example --set optim.epochs=3. Repeatable.",
)  # fmt: skip
DATA = click.option(
    "--data", default="data", envvar="INITMEM_DATA", show_default=True, metavar="FOLDER",
    help="Where the data sets lie (or INITMEM_DATA).",
)  # fmt: skip


class _Verbs(click.Group):
    """What a user can mend is said in its own words, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        with told():
            return super().invoke(ctx)


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="initmem")
def main() -> None:
    """How much of a network's random initialization survives training.

    Example: initmem run studies/digits.yaml
    """


@main.command()
@click.argument("studies", nargs=-1, required=True, metavar="STUDY...")
def validate(studies: Sequence[str]) -> None:
    """Check study files; every fault is one line `file:line: field: what is wrong`.

    Example: initmem validate studies/*.yaml
    """
    faults = []
    for path in studies:
        try:
            study = load(path)
        except UserError as error:
            faults += str(error).splitlines()
        else:
            click.echo(f"{path}: {size(study)}")
    if faults:
        raise UserError(*faults)


@main.command()
@click.argument("study", metavar="STUDY")
@SET
def plan(study: str, overrides: Sequence[str]) -> None:
    """Say what a study would train, and how large it would get; starts nothing.

    Example: initmem plan studies/digits.yaml --set search.draws=64
    """
    checked = load(study, overrides)
    click.echo(outline(checked))
    click.echo(resolution(checked))


@main.command()
@click.argument("study", metavar="STUDY")
@click.option(
    "--run",
    "folder",
    metavar="DIR",
    help="Run folder, or s3://bucket/path. Default: <storage>/<study>, that is runs/<study>.",
)
@click.option("--local", is_flag=True, help="Train in this process, without Ray.")
@click.option("--workers", type=click.IntRange(min=1), help="Blocks at once. Default: all cores.")
@click.option("--retry-failed", is_flag=True, help="Train failed replicas again.")
@SET
@DATA
def run(
    study: str,
    folder: str | None,
    local: bool,
    workers: int | None,
    retry_failed: bool,
    overrides: Sequence[str],
    data: str,
) -> None:
    """Train what the study lacks; run it again to go on where it stopped.

    Example: initmem run studies/digits.yaml --workers 2 --set optim.epochs=50
    """
    checked = load(study, overrides)
    from initmem.tune.launch import run as train

    try:
        summary = train(
            checked,
            folder,
            local=local,
            workers=workers,
            data=data,
            retry_failed=retry_failed,
        )
    except KeyboardInterrupt as stop:
        again = shlex.join(["initmem", *sys.argv[1:]])
        click.echo(f"\nstopped by {str(stop) or 'SIGINT'}; to go on: {again}", err=True)
        sys.exit(getattr(stop, "exit_status", 130))
    states = ", ".join(f"{n} {state}" for state, n in summary.states.items())
    if not summary.trained and summary.done >= summary.planned:
        click.echo(f"{checked.name}: nothing to do, all {summary.planned} replicas are trained")
    else:
        told = f"{summary.trained} trained in {summary.seconds:.0f} s"
        click.echo(f"{checked.name}: {summary.done} of {summary.planned} replicas, {told}")
    if summary.ended:
        click.echo(early(checked, summary.ended))
    if summary.repeated_steps:
        click.echo(f"{summary.repeated_steps} steps were trained twice after kills")
    click.echo(states or "no rows")
    click.echo(f"figures and report: python -m analysis {one_line(summary.address)}")
    if summary.done < summary.planned:
        raise UserError(f"{summary.address}: run: incomplete; the same command goes on from here")
    if summary.states.get("failed"):
        hint = "`error` in their rows says why; --retry-failed trains them again"
        click.echo(f"some replicas failed: {hint}", err=True)
        sys.exit(1)


@main.command()
@click.argument("folder", metavar="DIR")
def status(folder: str) -> None:
    """Say where a run stands, while it runs and after.

    Example: initmem status runs/digits
    """
    from initmem.memory import cells
    from initmem.memory.measures import MEASURES
    from initmem.records.store import Store, counted, frame
    from initmem.tune.owner import described, owner_of

    store = Store(folder)
    study = store.open()
    ended = store.ended(study)
    found, asked = store.rows(), asked_by(study, ended)
    rows = [row for row in found if asked(row)]
    others = len(found) - len(rows)
    owner = owner_of(store.files)
    done = f"{len(rows)} of {count(study, ended)} replicas"
    click.echo(
        f"{study.name}: {done}, {counted(Counter(row['state'] for row in rows)) or 'no rows'}"
    )
    if ended:
        click.echo(early(study, ended))
    if others:
        click.echo(f"{many(others, 'more row')} in the folder, of no replica of this study")
    click.echo("not running" if owner is None else f"running: {described(owner)}")
    if rows:
        values = len(study.axes[study.memory_axis])
        known = cells(frame(rows), study.measure, threshold=study.threshold, axis_values=values)
        of = MEASURES[study.measure]
        if study.measure != "test_accuracy":
            click.echo(f"memory of the {of.noun}, in {of.unit}")
        named = {arm.id: arm.named for arm in arms(study)}
        for _, line in known.sort_values("memory", ascending=False).iterrows():
            point = [f"{field} {line[field]:.3g}" for field in study.ranges]
            lost = line.get("censored", 0)
            upper = "or more" if lost else f"to {line['high']:.1f}"
            ends = f"({line['low']:.1f} {upper})" if line["low"] >= 0 else ""
            memory = f"{'>=' * (lost > 0)}{line['memory']:.1f}" if line["memory"] >= 0 else "-"
            trained, all_of = line["trained_values"], line["values"]
            part = [f"over {trained} of {all_of} values"] if 0 < trained < all_of else []
            part += [f"{many(lost, 'replica')} not within the budget"] if lost else []
            place = ", ".join([*named[line["arm"]], *point, *part])
            click.echo(f"memory {memory:>5} {ends:16} {line['verdict']:11}  {place}")


@main.command()
@click.argument("folder", metavar="DIR")
def export(folder: str) -> None:
    """Write the rows of a run as rows.parquet and rows.csv into its folder.

    Example: initmem export runs/digits
    """
    from initmem.records.store import Store

    store = Store(folder)
    store.open()
    for path in store.export():
        click.echo(one_line(path))


@main.command()
@click.argument("folder", metavar="DIR")
@click.argument("replica", metavar="REPLICA")
@DATA
def rerun(folder: str, replica: str, data: str) -> None:
    """Train one replica of a run again and compare: the row is to be the same.

    Example: initmem rerun runs/digits 917b7fc76a20
    """
    from initmem.tune.rerun import rerun as train_again

    different = train_again(folder, replica, data)
    if different:
        lines = [f"  {name}: {old} -> {new}" for name, (old, new) in different.items()]
        raise UserError(f"{folder}: {replica}: the row differs:", *lines)
    click.echo(f"{replica}: the same row, bit for bit")


@main.command()
@click.argument("name", metavar="DATA")
@DATA
def fetch(name: str, data: str) -> None:
    """Download a data set once, into the data folder.

    Example: initmem fetch cifar10
    """
    from initmem.data.load import fetch as download

    click.echo(download(name, Path(data).absolute()))


if __name__ == "__main__":
    main()
