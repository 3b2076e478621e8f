"""A registry of container images on this machine, made of one program: busybox."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.servers.finding import missing

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_UNKNOWN = b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}'
_PROGRAMS = ("sh", "cat", "id", "env", "sleep", "ps", "pwd", "kill")


class Registry:
    """Serves what was added to it, as registries do, until it is closed."""

    def __init__(self) -> None:
        self._served: dict[str, tuple[str, bytes]] = {}
        handler = type("Handler", (_Handler,), {"served": self._served})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def add(self, name: str, tag: str, said: str) -> str:
        """An image that has `said` in its file /said; its digest."""
        layer = _layer(said)
        blob = gzip.compress(layer, mtime=0)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin"], "WorkingDir": "/bin"},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        ).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": self._put(name, _CONFIG, config),
                "layers": [self._put(name, _LAYER, blob)],
            }
        ).encode()
        for reference in (tag, _digest(manifest)):
            self._served[f"/v2/{name}/manifests/{reference}"] = _MANIFEST, manifest
        return _digest(manifest)

    def _put(self, name: str, kind: str, data: bytes) -> dict[str, Any]:
        self._served[f"/v2/{name}/blobs/{_digest(data)}"] = kind, data
        return {"mediaType": kind, "digest": _digest(data), "size": len(data)}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: dict[str, tuple[str, bytes]]

    def do_GET(self) -> None:
        kind, data = ("application/json", b"{}")
        if self.path != "/v2/":
            kind, data = self.served.get(self.path, ("", _UNKNOWN))
        self.send_response(200 if kind else 404)
        self.send_header("Content-Type", kind or "application/json")
        self.send_header("Content-Length", str(len(data)))
        if kind == _MANIFEST:
            self.send_header("Docker-Content-Digest", _digest(data))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, format: str, *values: object) -> None:
        """Tests have nothing to read there."""


def _layer(said: str) -> bytes:
    busybox = shutil.which("busybox")
    if busybox is None:
        missing("containers", "install busybox-static (Debian: apt install busybox-static)")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data, mode in (("bin/busybox", Path(busybox).read_bytes(), 0o755),
                                 ("said", said.encode(), 0o644)):  # fmt: skip
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
        for name in _PROGRAMS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            archive.addfile(link)
    return made.getvalue()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
