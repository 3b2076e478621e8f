"""A small disk that can be filled and freed again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system of its own."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def fill(self, spare: int) -> None:
        """Leave no more than so many bytes."""
        free = os.statvfs(self.place)
        with open(self._filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_bsize - spare)

    def free(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(place: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount one; where that is not allowed the test is skipped, which fails in CI."""
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(place)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("NOT TESTED: a full disk, because none may be mounted here")
    try:
        yield SmallDisk(place)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
