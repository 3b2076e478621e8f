"""A package index in a folder, made of small wheels: fast, offline, and what it has is certain."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


class Index:
    """Serves as `UV_DEFAULT_INDEX`: a folder for each project, with a page that lists its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def add(
        self,
        name: str,
        version: str,
        *,
        files: Mapping[str, str] | None = None,
        requires: Sequence[str] = (),
        python: str = ">=3.9",
    ) -> Path:
        """A wheel of pure Python; by default with one module that knows its version."""
        module = name.replace("-", "_")
        content = dict(files or {f"{module}.py": f"VERSION = {version!r}\n"})
        info = f"{module}-{version}.dist-info"
        needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
        content[f"{info}/METADATA"] = (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            f"Requires-Python: {python}\n{needs}"
        )
        content[f"{info}/WHEEL"] = (
            "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        content[f"{info}/RECORD"] = _record(content, info)
        project = self.folder / name
        project.mkdir(exist_ok=True)
        wheel = project / f"{module}-{version}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, text in content.items():
                archive.writestr(zipfile.ZipInfo(path, (2026, 1, 1, 0, 0, 0)), text)
        self._list(project)
        return wheel

    def _list(self, project: Path) -> None:
        rows = "".join(
            f'<a href="{wheel.name}#sha256={digest(wheel)}">{wheel.name}</a><br>\n'
            for wheel in sorted(project.glob("*.whl"))
        )
        (project / "index.html").write_text(f"<!DOCTYPE html><html><body>{rows}</body></html>")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _record(content: Mapping[str, str], info: str) -> str:
    rows = []
    for path, text in content.items():
        hashed = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{path},sha256={hashed.decode()},{len(text.encode())}\n")
    return "".join([*rows, f"{info}/RECORD,,\n"])
