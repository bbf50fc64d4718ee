"""A run: what a study leaves behind, and the only truth about what is done.

    study.sealed                   the study, resolved
    records/<replica>.sealed       one a replica: its row
    ended.sealed                   arms whose search ended early; made from the records
    engines.sealed                 which engine is the faster one; timed before the first block
    checkpoints/<replica>/         of replicas in training
    rows.parquet, rows.csv         the table, made from the records
    tensorboard/                   Ray Tune's own files
    report/                        what `python -m analysis` makes

A sealed file is a line with the SHA-256 of what follows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from initmem.records.checkpoints import Checkpoints
from initmem.records.files import SEALED, files_at, seal, unseal, warn
from initmem.records.rows import Row, from_text, table, to_text
from initmem.study import load
from initmem.study.address import below
from initmem.study.plan import Cell, Replica
from initmem.study.recipe import digest, flatten
from initmem.study.section import Count, Section
from initmem.study.spec import Study, StudyError, UserError, cut

STUDY = "study.sealed"
ENDED = "ended.sealed"
ENGINES = "engines.sealed"
RECORDS = "records"

RECENT = 256
"""Rows kept in memory for those who look twice. A study may have many more than memory holds."""


class _Ended(Section):
    """What the driver found of the arms' searches, for who cannot search."""

    of: str
    """What it was found under: see `_searched`."""
    draws: dict[str, Count]


class Damaged(UserError):
    """A record that holds no row; it counts as absent, and who trains sets it aside."""


class Store:
    """A run folder, here or in a bucket. Reading changes nothing: a damaged file is named once
    and counts as absent; who trains sets it aside."""

    def __init__(self, address: str | Path) -> None:
        self.files = files_at(address)
        self.address = self.files.address
        self._recent: dict[str, Row] = {}
        self._damaged: set[str] = set()

    def open(self) -> Study:
        """The study of an existing run, checked as a study file is. Raises UserError where there
        is none."""
        sealed = self.files.read(STUDY)
        if sealed is None:
            raise UserError(f"{self.address}: run: holds no {STUDY}, so it is no run")
        content = unseal(sealed)
        hint = f"`initmem run STUDY --run {self.address}` writes it anew"
        if content is None:
            raise UserError(f"{self._at(STUDY)}: run: damaged; {hint}")
        try:
            return load.check(content, self._at(STUDY))
        except StudyError as error:
            first = error.problems[0]
            raise UserError(
                f"{first.where}: run: of another version: {first.field}: {first.text}; use the "
                f"version that wrote it, or another run folder"
            ) from None

    def known(self) -> Study | None:
        """The study of the run, or None where nothing was run yet; a damaged one counts as none,
        for every record holds its whole recipe."""
        sealed = self.files.read(STUDY)
        if sealed is not None and unseal(sealed) is None:
            self._name(STUDY, f"{self._at(STUDY)}: run: damaged; it is written anew")
            return None
        return None if sealed is None else self.open()

    def create(self, study: Study) -> None:
        """Keep the study in the run. Raises UserError if it cannot be written."""
        self._set_aside(STUDY)
        content = study.model_dump_json(indent=1, exclude_defaults=True)
        self.files.write(STUDY, seal(content.encode()))

    def ended(self, study: Study) -> dict[str, int]:
        """Draws of the arms whose search ended early, by id, as the last run of this very search
        found them. Without that file, which `initmem run` makes from the records, or with a
        damaged one, none."""
        sealed = self.files.read(ENDED) if study.search.stop_when is not None else None
        if sealed is None:
            return {}
        try:
            found = _Ended.model_validate_json(unseal(sealed) or b"")
        except ValueError:
            self._name(ENDED, f"{self._at(ENDED)}: run: damaged; `initmem run` writes it anew")
            return {}
        return found.draws if found.of == _searched(study) else {}

    def keep_ended(self, study: Study, ended: dict[str, int]) -> None:
        """Keep what `ended` is to return."""
        if ended != self.ended(study):
            self._set_aside(ENDED)
            found = _Ended(of=_searched(study), draws=ended)
            self.files.write(ENDED, seal(found.model_dump_json().encode()))

    def engines(self) -> dict[str, str]:
        """Which engine was found the faster one, by what that depends on; none without the file,
        or with a damaged one."""
        content = unseal(self.files.read(ENGINES) or b"")
        return json.loads(content) if content else {}

    def keep_engines(self, engines: dict[str, str]) -> None:
        """Keep what `engines` is to return."""
        self.files.write(ENGINES, seal(json.dumps(engines, indent=1).encode()))

    def put(self, row: Row) -> None:
        """Keep a replica's row: from here on it is done."""
        name = f"{RECORDS}/{row['replica']}{SEALED}"
        self._set_aside(name)
        self.files.write(name, seal(to_text(row)))
        self._keep(row)

    def get(self, replica: str) -> Row | None:
        """A replica's row, or None if it has none or a damaged one."""
        try:
            return self.row(replica)
        except Damaged as error:
            self._name(f"{RECORDS}/{replica}{SEALED}", str(error))
            return None

    def row(self, replica: str) -> Row | None:
        """A replica's row, or None if it has none. Raises Damaged if its record holds no row."""
        if replica not in self._recent:
            name = f"{RECORDS}/{replica}{SEALED}"
            sealed = self.files.read(name)
            if sealed is None:
                return None
            try:
                self._keep(_row_in(sealed, replica))
            except ValueError as error:
                hint = "`initmem run` trains the replica again"
                raise Damaged(f"{self._at(name)}: record: {error}; {hint}") from None
        return self._recent[replica]

    def done(self, replica: Replica) -> Row | None:
        """The replica's row, if its record holds the recipe that is asked for, field by field."""
        row = self.get(replica.id)
        if row is None:
            return None
        asked = flatten(replica.recipe)
        changed = [name for name, value in asked.items() if row[name] != value]
        if changed:
            old = ", ".join(f"{name} {row[name]} -> {asked[name]}" for name in changed)
            place = self._at(f"{RECORDS}/{replica.id}{SEALED}")
            raise UserError(
                f"{place}: record: of another default: {old}; "
                f"state the old value in the study, or use another --run folder"
            )
        return row

    def forget(self, replica: str) -> None:
        """Set a row aside, so that the replica is trained again."""
        name = f"{RECORDS}/{replica}{SEALED}"
        self.files.rename(name, name.replace(SEALED, ".failed"))
        self._recent.pop(replica, None)

    def cell(self, cell: Cell) -> list[Row] | None:
        """The rows of a cell, in its order, or None unless all are done."""
        rows = [self.done(replica) for replica in cell.replicas]
        return [row for row in rows if row is not None] if None not in rows else None

    def names(self) -> set[str]:
        """The replicas that have a record."""
        names = self.files.names(RECORDS)
        return {name.removesuffix(SEALED) for name in names if name.endswith(SEALED)}

    def rows(self, asked: Callable[[Row], bool] = lambda row: True) -> list[Row]:
        """All rows, or those that are `asked` for, by arm, draw, memory-axis value and seed."""
        found = [row for name in self.names() if (row := self.get(name)) and asked(row)]
        return sorted(found, key=_place)

    def frame(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        return frame(self.rows())

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
        return [self._at(name) for name in written]

    def _at(self, name: str) -> str:
        return below(self.address, name)

    def _keep(self, row: Row) -> None:
        self._recent[row["replica"]] = row
        if len(self._recent) > RECENT:
            del self._recent[next(iter(self._recent))]

    def _name(self, damaged: str, text: str) -> None:
        if damaged not in self._damaged:
            self._damaged.add(damaged)
            warn(text)

    def _set_aside(self, name: str) -> None:
        if name in self._damaged:
            self.files.rename(name, name.replace(SEALED, ".damaged"))
            self._damaged.discard(name)


def rows(run: str | Path) -> pd.DataFrame:
    """The rows of a run as a DataFrame, a line a replica (columns: `rows.SCHEMA`).

    Raises UserError if the folder is no run.
    """
    store = Store(run)
    store.open()
    return store.frame()


def frame(rows: list[Row]) -> pd.DataFrame:
    """Rows as a DataFrame, in their order."""
    return table(rows).to_pandas()


def _row_in(sealed: bytes, replica: str) -> Row:
    """The row in a record. Raises ValueError, in words, if there is none of this replica."""
    content = unseal(sealed)
    if content is None:
        raise ValueError("damaged")
    try:
        row = from_text(content)
        if row["replica"] != replica:
            raise ValueError(f"replica: {cut(row['replica'], 40)}")
    except ValueError as error:
        raise ValueError(f"not of this replica, or of another version: {error}") from None
    return row


def _searched(study: Study) -> str:
    """A hash of all that decides where a search ends, beside the rows."""
    elsewhere = {"name", "question", "resources", "storage", "tracking"}
    return digest(study.model_dump(mode="json", exclude=elsewhere, exclude_defaults=True))


def _place(row: Row) -> tuple[Any, ...]:
    """Where a row stands in the table."""
    axis = row["memory_axis"]
    return row["arm"], row["draw"], row["cell"], axis, row[axis], row["seed"]


def counted(states: Mapping[str, int]) -> str:
    """How many replicas are in each state, in words."""
    return ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
