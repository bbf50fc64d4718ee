"""A run folder: what a study leaves on disk, and the only truth about what is done.

    RUN/study.json               the study, resolved
    RUN/records/<replica>.json   one a replica: a line with the SHA-256 of the next, then the row
    RUN/checkpoints/<replica>/   of replicas in training
    RUN/rows.parquet, rows.csv   the table, made from the records
    RUN/tensorboard/             Ray Tune's own files

Every file appears whole or not at all: written aside, flushed, renamed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pydantic import ValidationError

from initmem.records.rows import Row, from_text, table, to_text
from initmem.study.plan import Cell, Replica
from initmem.study.recipe import flatten
from initmem.study.spec import Study, UserError


def write_atomic(path: Path, content: bytes) -> None:
    """Write so that a kill at any moment leaves the old file or the new one, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def seal(content: bytes) -> bytes:
    """The content behind a line with its SHA-256."""
    return hashlib.sha256(content).hexdigest().encode() + b"\n" + content


def unseal(sealed: bytes) -> bytes | None:
    """The content, or None if a bit of it is not as written."""
    checksum, _, content = sealed.partition(b"\n")
    return content if hashlib.sha256(content).hexdigest().encode() == checksum else None


class Checkpoints:
    """The checkpoints of one replica: the last two, so that a damaged one has a predecessor."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, content: bytes) -> None:
        older = self._files()
        write_atomic(self.folder / f"{step:010d}.pt", seal(content))
        for path in older[:-1]:
            path.unlink()

    def latest(self) -> bytes | None:
        """The newest checkpoint that is as written. A damaged one is named and set aside."""
        for path in reversed(self._files()):
            content = unseal(path.read_bytes())
            if content is not None:
                return content
            os.replace(path, path.with_suffix(".damaged"))
            print(f"{path}: checkpoint: damaged, set aside; an older one is used", file=sys.stderr)
        return None

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.pt"))


class Store:
    """A run folder. Reading keeps every verified row, so a second look reads new records only."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        self.records = self.folder / "records"
        self._rows: dict[str, Row] = {}

    def open(self) -> Study:
        """The study of an existing run. Raises UserError where there is none."""
        path = self.folder / "study.json"
        try:
            return Study.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise UserError(f"{self.folder}: run: holds no study.json, so it is no run") from None
        except OSError as error:
            raise UserError(f"{path}: run: cannot be read: {error.strerror}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]["msg"]
            raise UserError(f"{path}: run: damaged, or of another version: {first}") from None

    def create(self, study: Study) -> None:
        """Make the folder and keep the study in it. Raises UserError if it cannot be written."""
        try:
            self.records.mkdir(parents=True, exist_ok=True)
            content = study.model_dump_json(indent=1, exclude_defaults=True)
            write_atomic(self.folder / "study.json", content.encode())
        except OSError as error:
            raise UserError(f"{self.folder}: run: cannot be written: {error.strerror}") from None

    def put(self, row: Row) -> None:
        """Keep a replica's row: from here on it is done."""
        path = self.records / f"{row['replica']}.json"
        write_atomic(path, seal(to_text(row).encode()) + b"\n")
        self._rows[row["replica"]] = row

    def get(self, replica: str) -> Row | None:
        """A replica's row, or None if it has none. A damaged record is named and set aside."""
        if replica in self._rows:
            return self._rows[replica]
        path = self.records / f"{replica}.json"
        try:
            content = unseal(path.read_bytes().removesuffix(b"\n"))
        except FileNotFoundError:
            return None
        if content is None:
            os.replace(path, path.with_suffix(".damaged"))
            print(f"{path}: record: damaged, set aside; it is trained again", file=sys.stderr)
            return None
        self._rows[replica] = from_text(content.decode())
        return self._rows[replica]

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
                f"{self.records / replica.id}.json: record: of another default: {old}; "
                f"state the old value in the study, or use another --run folder"
            )
        return row

    def checkpoints_of(self, replica: Replica) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints" / replica.id)

    def cell(self, cell: Cell) -> list[Row] | None:
        """The rows of a cell, in its order, or None unless all are done."""
        rows = [self.done(replica) for replica in cell.replicas]
        return [row for row in rows if row is not None] if None not in rows else None

    def names(self) -> set[str]:
        """The replicas that have a record."""
        if not self.records.is_dir():
            return set()
        return {path.stem for path in self.records.glob("[!.]*.json")}

    def rows(self) -> list[Row]:
        """All rows, by arm, draw, memory-axis value and seed."""
        found = [row for name in self.names() if (row := self.get(name))]
        return sorted(
            found, key=lambda r: (r["arm"], r["draw"], r["cell"], r[r["memory_axis"]], r["seed"])
        )

    def frame(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        return table(self.rows()).to_pandas()

    def export(self) -> list[Path]:
        """Write rows.parquet, with every column, and rows.csv, without lists and bytes."""
        whole = table(self.rows())
        if not len(whole):
            raise UserError(f"{self.folder}: run: has no rows yet")
        parquet, plain = pa.BufferOutputStream(), pa.BufferOutputStream()
        pq.write_table(whole, parquet, write_page_checksum=True, compression="zstd")
        flat = [f.name for f in whole.schema if f.type.num_fields == 0 and f.type != pa.binary()]
        pa_csv.write_csv(whole.select(flat), plain)
        paths = [self.folder / "rows.parquet", self.folder / "rows.csv"]
        for path, stream in zip(paths, (parquet, plain), strict=True):
            write_atomic(path, stream.getvalue().to_pybytes())
        return paths


def rows(run: str | Path) -> pd.DataFrame:
    """The rows of a run folder as a DataFrame, a line a replica (columns: `rows.SCHEMA`).

    Raises UserError if the folder is no run.
    """
    store = Store(run)
    store.open()
    return store.frame()


def counted(rows: Iterable[Row]) -> str:
    """How many replicas are in each state, in words."""
    states = Counter(row["state"] for row in rows)
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
