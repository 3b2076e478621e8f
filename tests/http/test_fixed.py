"""What anybody may ask for is made once; what a server answers has an end."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from stayer.core.errors import StoreUnreachable, StoreUnusable
from stayer.http import docs, openapi
from stayer.stores import open_store
from stayer.stores.remote import connection
from tests.http.serving import Site


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
def test_a_description_is_made_once(site: Site, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = site("GET", path, role=None)
    made: list[str] = []
    monkeypatch.setattr(openapi, "describe", lambda *_: made.append("openapi"))
    monkeypatch.setattr(docs, "page", lambda *_: made.append("docs"))
    for _ in range(3):
        again = site("GET", path, role=None)
        assert (again.status, again.body) == (200, first.body)
        packed = site("GET", path, role=None, Accept_Encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == first.body
    known = site("GET", path, role=None, If_None_Match=first.headers["etag"])
    assert (known.status, known.body) == (304, b"")
    assert made == []


class _Answering(BaseHTTPRequestHandler):
    content = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        self.wfile.write(self.content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def other() -> Iterator[str]:
    """The URL of a server that is not ours."""
    server = HTTPServer(("127.0.0.1", 0), _Answering)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_answer_that_grows_without_end_is_refused(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LARGEST_BYTES", 1_000_000)
    monkeypatch.setattr(_Answering, "content", gzip.compress(b" " * 2_000_000 + b"{}"))
    with closing(open_store(other, token="t")) as store:
        with pytest.raises(StoreUnusable, match="more than 1 MB"):
            store.queues()
        monkeypatch.setattr(_Answering, "content", gzip.compress(b'{"queues":[]}'))
        assert store.queues() == []


@pytest.mark.parametrize("content", [gzip.compress(b"{}")[:-4], b"no gzip"], ids=["cut", "no gzip"])
def test_an_answer_that_is_cut_off_is_not_taken(
    other: str, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Answering, "content", content)
    with closing(open_store(other, token="t")) as store, pytest.raises(StoreUnreachable):
        store.queues()
