"""How far a replica's training got, whoever kills it: three counters in a mapped file, which the
kernel keeps when the process is gone."""

from __future__ import annotations

import mmap
import struct
import zlib
from pathlib import Path

from initmem.study.spec import UserError

_COUNTERS = struct.Struct("<qqq")
_CHECKED = struct.Struct("<qqqq")


class Meter:
    """furthest: the last step trained; repeated: steps trained twice; resumed: times training
    went on after a kill. Without a folder (a bucket has none) it counts from zero, unkept."""

    def __init__(self, folder: Path | None) -> None:
        self._map: mmap.mmap | None = None
        self.furthest, self.repeated, self.resumed = 0, 0, 0
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with open(folder / "meter", "a+b") as file:
                file.truncate(_CHECKED.size)
                self._map = mmap.mmap(file.fileno(), _CHECKED.size)
        except OSError as error:
            what = f"cannot be written: {error.strerror}; move it away"
            raise UserError(f"{folder / 'meter'}: file: {what}") from None
        *counters, checksum = _CHECKED.unpack(self._map)
        if checksum == zlib.crc32(_COUNTERS.pack(*counters)):  # else new, or damaged: unknown
            self.furthest, self.repeated, self.resumed = counters

    def starts_at(self, step: int) -> None:
        """Training goes on from `step`; what was trained beyond it is trained again."""
        if self.furthest or step:
            self.resumed += 1
        self.repeated += max(0, self.furthest - step)
        self.reached(step)

    def reached(self, step: int) -> None:
        """A step was trained. Takes a microsecond."""
        self.furthest = step
        if self._map is not None:
            counters = self.furthest, self.repeated, self.resumed
            _CHECKED.pack_into(self._map, 0, *counters, zlib.crc32(_COUNTERS.pack(*counters)))
