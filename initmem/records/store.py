"""A run: what a study leaves behind, and the only truth about what is done.

    study.sealed                   the study, resolved
    records/<replica>.sealed       one a replica: its row
    checkpoints/<replica>/         of replicas in training
    rows.parquet, rows.csv         the table, made from the records
    tensorboard/                   Ray Tune's own files
    report/                        what `python -m analysis` makes

A sealed file is a line with the SHA-256 of what follows it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pydantic import ValidationError

from initmem.records.files import Files, LocalFiles, files_at, seal, unseal
from initmem.records.meter import Meter
from initmem.records.rows import Row, from_text, table, to_text
from initmem.study.plan import Cell, Replica
from initmem.study.recipe import flatten
from initmem.study.spec import Study, UserError

STUDY = "study.sealed"
RECORDS = "records"
SEALED = ".sealed"


class Store:
    """A run folder, here or in a bucket. Verified rows are kept in memory, so a second look reads
    new records only. Reading changes nothing: a damaged file is named once and counts as absent;
    who trains sets it aside."""

    def __init__(self, address: str | Path) -> None:
        self.files = files_at(address)
        self.address = self.files.address
        self._rows: dict[str, Row] = {}
        self._damaged: set[str] = set()

    def open(self) -> Study:
        """The study of an existing run. Raises UserError where there is none."""
        sealed = self.files.read(STUDY)
        if sealed is None:
            raise UserError(f"{self.address}: run: holds no {STUDY}, so it is no run")
        content = unseal(sealed)
        hint = f"`initmem run STUDY --run {self.address}` writes it anew"
        if content is None:
            raise UserError(f"{self.address}/{STUDY}: run: damaged; {hint}")
        try:
            return Study.model_validate_json(content)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]["msg"]
            raise UserError(f"{self.address}/{STUDY}: run: of another version: {first}") from None

    def known(self) -> Study | None:
        """The study of the run, or None where nothing was run yet; a damaged one counts as none,
        for every record holds its whole recipe."""
        sealed = self.files.read(STUDY)
        if sealed is not None and unseal(sealed) is None:
            self._name(STUDY, "run: damaged; it is written anew")
            return None
        return None if sealed is None else self.open()

    def create(self, study: Study) -> None:
        """Keep the study in the run. Raises UserError if it cannot be written."""
        self._set_aside(STUDY)
        content = study.model_dump_json(indent=1, exclude_defaults=True)
        self.files.write(STUDY, seal(content.encode()))

    def put(self, row: Row) -> None:
        """Keep a replica's row: from here on it is done."""
        name = f"{RECORDS}/{row['replica']}{SEALED}"
        self._set_aside(name)
        self.files.write(name, seal(to_text(row)))
        self._rows[row["replica"]] = row

    def get(self, replica: str) -> Row | None:
        """A replica's row, or None if it has none or a damaged one."""
        if replica in self._rows:
            return self._rows[replica]
        name = f"{RECORDS}/{replica}{SEALED}"
        sealed = self.files.read(name)
        if sealed is None:
            return None
        content = unseal(sealed)
        row = None if content is None else from_text(content)
        if row is None or row["replica"] != replica:
            what = "damaged" if content is None else "not of this replica, or of another version"
            self._name(name, f"record: {what}; `initmem run` trains the replica again")
            return None
        self._rows[replica] = row
        return row

    def done(self, replica: Replica) -> Row | None:
        """The replica's row, if its record holds the recipe that is asked for, field by field."""
        row = self.get(replica.id)
        if row is None:
            return None
        asked = flatten(replica.recipe)
        changed = [name for name, value in asked.items() if row[name] != value]
        if changed:
            old = ", ".join(f"{name} {row[name]} -> {asked[name]}" for name in changed)
            raise UserError(
                f"{self.address}/{RECORDS}/{replica.id}: record: of another default: {old}; "
                f"state the old value in the study, or use another --run folder"
            )
        return row

    def forget(self, replica: str) -> None:
        """Set a row aside, so that the replica is trained again."""
        name = f"{RECORDS}/{replica}{SEALED}"
        self.files.rename(name, name.replace(SEALED, ".failed"))
        del self._rows[replica]

    def cell(self, cell: Cell) -> list[Row] | None:
        """The rows of a cell, in its order, or None unless all are done."""
        rows = [self.done(replica) for replica in cell.replicas]
        return [row for row in rows if row is not None] if None not in rows else None

    def names(self) -> set[str]:
        """The replicas that have a record."""
        names = self.files.names(RECORDS)
        return {name.removesuffix(SEALED) for name in names if name.endswith(SEALED)}

    def rows(self) -> list[Row]:
        """All rows, by arm, draw, memory-axis value and seed."""
        found = [row for name in self.names() if (row := self.get(name))]
        return sorted(
            found, key=lambda r: (r["arm"], r["draw"], r["cell"], r[r["memory_axis"]], r["seed"])
        )

    def frame(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        return table(self.rows()).to_pandas()

    def checkpoints_of(self, replica: str) -> Checkpoints:
        return Checkpoints(self.files, f"checkpoints/{replica}")

    def export(self) -> list[str]:
        """Write rows.parquet, with every column, and rows.csv, without lists and bytes."""
        whole = table(self.rows())
        if not len(whole):
            raise UserError(f"{self.address}: run: has no rows yet")
        parquet, plain = pa.BufferOutputStream(), pa.BufferOutputStream()
        pq.write_table(whole, parquet, write_page_checksum=True, compression="zstd")
        flat = [f.name for f in whole.schema if f.type.num_fields == 0 and f.type != pa.binary()]
        pa_csv.write_csv(whole.select(flat), plain)
        written = {"rows.parquet": parquet, "rows.csv": plain}
        for name, stream in written.items():
            self.files.write(name, stream.getvalue().to_pybytes())
        return [f"{self.address}/{name}" for name in written]

    def _name(self, damaged: str, text: str) -> None:
        if damaged not in self._damaged:
            self._damaged.add(damaged)
            print(f"{self.address}/{damaged}: {text}", file=sys.stderr)

    def _set_aside(self, name: str) -> None:
        if name in self._damaged:
            self.files.rename(name, name.replace(SEALED, ".damaged"))
            self._damaged.discard(name)


class Checkpoints:
    """The checkpoints of one replica: the last two, so that a damaged one has a predecessor."""

    def __init__(self, files: Files, folder: str) -> None:
        self.files, self.folder = files, folder

    def save(self, step: int, content: bytes) -> None:
        older = self._names()
        self.files.write(f"{self.folder}/{step:010d}{SEALED}", seal(content))
        for name in older[:-1]:
            self.files.remove_file(f"{self.folder}/{name}")

    def newest(self) -> str | None:
        """The name of the newest checkpoint, whether it can be read or not."""
        return max(self._names(), default=None)

    def latest(self) -> bytes | None:
        """The newest checkpoint that is as written. A damaged one is named and set aside."""
        for name in reversed(self._names()):
            path = f"{self.folder}/{name}"
            content = unseal(self.files.read(path) or b"")
            if content is not None:
                return content
            self.files.rename(path, path.replace(SEALED, ".damaged"))
            place = f"{self.files.address}/{path}"
            print(
                f"{place}: checkpoint: damaged, set aside; an older one is used", file=sys.stderr
            )
        return None

    def meter(self) -> Meter:
        if isinstance(self.files, LocalFiles):
            return Meter(self.files.folder / self.folder)
        return Meter(None)

    def remove(self) -> None:
        self.files.remove(self.folder)

    def _names(self) -> list[str]:
        return [name for name in self.files.names(self.folder) if name.endswith(SEALED)]


def rows(run: str | Path) -> pd.DataFrame:
    """The rows of a run as a DataFrame, a line a replica (columns: `rows.SCHEMA`).

    Raises UserError if the folder is no run.
    """
    store = Store(run)
    store.open()
    return store.frame()


def counted(rows: Iterable[Row]) -> str:
    """How many replicas are in each state, in words."""
    states = Counter(row["state"] for row in rows)
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
