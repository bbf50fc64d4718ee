"""The checkpoints of a replica in training, in its folder of the run."""

from __future__ import annotations

from collections.abc import Callable

from initmem.records.files import SEALED, Files, LocalFiles, seal, unseal, warn
from initmem.records.meter import Meter
from initmem.study.address import below


class Checkpoints:
    """The last two of one replica, so that a damaged one has a predecessor."""

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

    def latest(self, takes: Callable[[bytes], bool] = lambda content: True) -> bytes | None:
        """The newest checkpoint that is as written and that `takes` accepts. Others are named and
        set aside."""
        for name in reversed(self._names()):
            path = f"{self.folder}/{name}"
            content = unseal(self.files.read(path) or b"")
            if content is not None and takes(content):
                return content
            self.files.rename(path, path.replace(SEALED, ".damaged"))
            what = "damaged" if content is None else "of another replica, version or device"
            place = below(self.files.address, path)
            warn(f"{place}: checkpoint: {what}, set aside; an older one or none is used")
        return None

    def meter(self) -> Meter:
        if isinstance(self.files, LocalFiles):
            return Meter(self.files.folder / self.folder)
        return Meter(None)

    def remove(self) -> None:
        self.files.remove(self.folder)

    def _names(self) -> list[str]:
        return [name for name in self.files.names(self.folder) if name.endswith(SEALED)]
