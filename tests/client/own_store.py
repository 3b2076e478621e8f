"""A package that brings a store, as somebody's own would."""

from __future__ import annotations

from pathlib import Path

_CODE = """
from stayer.stores import open_store as open_known

def open_store(url, clock):
    return open_known("sqlite:///" + url.removeprefix("own://"), clock)
"""


def install(folder: Path) -> Path:
    """Make the package, with its entry point, in a folder for `sys.path`; the folder."""
    place = folder / "packages"
    about = place / "own_store-1.0.dist-info"
    about.mkdir(parents=True)
    (place / "own_store.py").write_text(_CODE)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-store\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[stayer.stores]\nown = own_store:open_store\n")
    return place
