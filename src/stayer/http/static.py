"""Files of the web page and of our own small pages. What is not in the folder has no name here, so
there is no path that leads out of it.
"""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from stayer.http.problem import Problem

_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".webmanifest": "application/manifest+json",
}


class Fixed:
    """A page that stays as it is while the server runs: encoded, packed and tagged once, for
    anybody may ask for it as often as they like.
    """

    def __init__(self, content: bytes, media: str) -> None:
        self._content = content
        self._packed = gzip.compress(content, 6, mtime=0)
        self._tag = f'W/"{hashlib.blake2b(content, digest_size=9).hexdigest()}"'
        self._media = media

    def answer(self, request: Request) -> Response:
        """Answer with the page, unless the browser has it."""
        headers = {"etag": self._tag, "cache-control": "no-cache", "vary": "Accept-Encoding"}
        if self._tag.removeprefix("W/") in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        headers["content-type"] = self._media
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self._content, headers=headers)
        return Response(self._packed, headers={**headers, "content-encoding": "gzip"})


class Folder:
    """The files below a folder that may be seen, by their names in URLs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._found: dict[str, Path] | None = None

    def answer(self, name: str, request: Request) -> Response:
        """Answer with the file, or that it has not changed since the browser got it."""
        path = self._files().get(name)
        if path is None:
            raise Problem("unknown-path", f"there is no file {name!r}")
        content = path.read_bytes()
        tag = f'"{hashlib.blake2b(content, digest_size=9).hexdigest()}"'
        headers = {"etag": tag, "cache-control": "no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers={**headers, "content-type": _MEDIA[path.suffix]})

    def _files(self) -> dict[str, Path]:
        if self._found is None:
            self._found = {
                path.relative_to(self._folder).as_posix(): path
                for path in self._folder.rglob("*")
                if path.suffix in _MEDIA and path.is_file()
            }
        return self._found


OWN = Folder(Path(__file__).parent / "assets")
UI = Folder(Path(__file__).parents[1] / "ui")
