"""The data and the code of an older version, as tests/data/make.py keeps them."""

from __future__ import annotations

import base64
import bisect
import gzip
import json
import lzma
import os
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from redis.crc import key_slot

from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.servers.cluster import SLOTS, Cluster
from tests.servers.redis import RedisServer

DATA = Path(__file__).parents[1] / "data" / "144e6ff"
PREFIX = "stayer"


def read_json(name: str) -> Any:
    """A file of the data, `.gz` or not."""
    content = (DATA / name).read_bytes()
    return json.loads(gzip.decompress(content) if name.endswith(".gz") else content)


def restore_sqlite(path: Path, name: str = "sqlite.db.gz") -> str:
    """Put the file there; its URL."""
    path.write_bytes(gzip.decompress((DATA / name).read_bytes()))
    return f"sqlite:///{path}"


def restore_redis(server: RedisServer) -> str:
    """Give a server just these keys; the URL of the store."""
    url = server.url(PREFIX)
    store = open_store(url)
    assert isinstance(store, RedisStore)
    store._server.ask("FLUSHALL")
    _restore("redis.keys.json.gz", lambda key: store._server.ask)
    store.close()
    return url


def restore_cluster(cluster: Cluster) -> str:
    """Give each node just the keys of its slots; the URL of the store."""
    for each in cluster.nodes:
        each.ask("FLUSHALL", password="")
    starts = [0, SLOTS // 3, 2 * SLOTS // 3]

    def node(key: str) -> Callable[..., Any]:
        number = bisect.bisect_right(starts, key_slot(key.encode())) - 1
        return lambda *words: cluster.nodes[number].ask(*words, password="")

    _restore("cluster.keys.json.gz", node)
    return cluster.url(prefix=PREFIX)


def _restore(name: str, ask: Callable[[str], Callable[..., Any]]) -> None:
    for key, (lives, dump) in read_json(name).items():
        ask(key)("RESTORE", key, lives, base64.b64decode(dump))


def unpack_source(folder: Path) -> Path:
    """Put the old package there, for PYTHONPATH; the folder."""
    packed = lzma.decompress((DATA / "source.tar.xz").read_bytes())
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def unpack_state(folder: Path, *, in_place: bool) -> None:
    """Put the state directory of the old worker there. In place: as if it had always been this
    folder, and the machine had run ever since; else as after a reboot.
    """
    with tarfile.open(DATA / "state.tar.gz") as archive:
        archive.extractall(folder.parent, filter="fully_trusted")
    (folder.parent / "state").rename(folder)
    if in_place:
        was = read_json("state.json")["boot"].encode()
        now = Path("/proc/sys/kernel/random/boot_id").read_text().strip().encode()
        for path in folder.rglob("*"):
            if path.is_file():
                path.write_bytes(path.read_bytes().replace(was, now))
        identity = json.loads((folder / "identity").read_text())
        found = folder.stat()
        identity |= {"device": found.st_dev, "inode": found.st_ino}
        identity["namespace"] = os.readlink("/proc/self/ns/pid")
        (folder / "identity").write_text(json.dumps(identity))
