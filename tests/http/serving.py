"""A server on a free port of this machine: in a thread of the test, or in a process of its own."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stayer.http.server import Server
from stayer.http.service import Settings
from stayer.http.token_places import TokenFile
from stayer.http.token_records import ROLES, Role
from stayer.http.tokens import Access
from stayer.stores import open_store
from tests.contract.builders import PATIENCE
from tests.quick_popen import QuickPopen


@dataclass
class Reply:
    """What the server said."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def is_problem(self, status: int, kind: str, *words: str) -> None:
        """Problem+json with all that belongs to it, and these words in its detail."""
        assert self.status == status, self
        assert self.headers["content-type"] == "application/problem+json", self
        problem = self.json
        assert problem["type"] == f"urn:stayer:problem:{kind}", problem
        assert problem["status"] == status
        assert problem["title"]
        assert problem["detail"]
        for word in words:
            assert word in problem["detail"], problem


@dataclass
class Site:
    """A server, and a token for each role."""

    url: str
    access: Access
    tokens: dict[Role, str] = field(default_factory=dict)
    spare: list[str] = field(default_factory=list)
    """Tokens that a test has made beside these."""

    @property
    def host(self) -> str:
        """Where it listens, whatever it is called."""
        return f"127.0.0.1:{urlsplit(self.url).port}"

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: Role | None = "operate",
        **headers: str,
    ) -> Reply:
        """One request; underscores in names of headers are dashes."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            said.setdefault("Authorization", f"Bearer {self.tokens[role]}")
        if body is not None:
            said.setdefault("Content-Type", "application/json")
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        try:
            connection.request(method, path, content, said)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, found, response.read())
        finally:
            connection.close()

    @contextmanager
    def stream(self, path: str, *, role: Role = "read", **headers: str) -> Iterator[Stream]:
        """Messages as they come."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        said.setdefault("Authorization", f"Bearer {self.tokens.get(role)}")
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        connection.request("GET", path, headers={"Accept": "text/event-stream", **said})
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.getheader("Content-Type", "").startswith("text/event-stream")
        try:
            yield Stream(response)
        finally:
            connection.close()


@dataclass
class Message:
    """One message of a stream."""

    id: str | None = None
    event: str | None = None
    data: Any = None


class Stream:
    """Reads messages; comments, and messages that carry only an id, are passed over."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self._response = response
        self.id: str | None = None
        self.comments: list[str] = []

    def message(self) -> Message | None:
        """The next one; None at the end."""
        event, data = None, None
        while True:
            line = self._response.readline()
            if not line:
                return None
            text = line.decode().rstrip("\n")
            name, _, value = text.partition(": ")
            if not text:
                if data is not None:
                    return Message(self.id, event, data)
                event = None
            elif not name:
                self.comments.append(value)
            elif name == "id":
                self.id = value
            elif name == "event":
                event = value
            elif name == "data":
                data = json.loads(value)

    def until_id(self) -> str:
        """Where the stream begins."""
        while self.id is None:
            line = self._response.readline().decode().rstrip("\n")
            if line.startswith("id: "):
                self.id = line.removeprefix("id: ")
        return self.id


def make_access(folder: Path) -> tuple[Access, dict[Role, str]]:
    access = Access(TokenFile(folder / "access.json"))
    return access, {role: access.add(f"the {role} token", role) for role in ROLES}


@contextmanager
def served_here(
    folder: Path, url: str, beside: Site | None = None, **settings: Any
) -> Iterator[Site]:
    """A server in a thread of this process, perhaps beside another one of the same store."""
    access, tokens = make_access(folder) if beside is None else (beside.access, beside.tokens)
    with served_with(access, url, tokens, **settings) as site:
        yield site


@contextmanager
def served_with(
    access: Access,
    url: str,
    tokens: dict[Role, str] | None = None,
    clock: Callable[[], float] | None = None,
    **settings: Any,
) -> Iterator[Site]:
    """A server in a thread of this process, with these tokens."""
    store = open_store(url, clock=clock)
    store.setup()
    server = Server(store, access, Settings(**{"port": 0, **settings}))
    thread = threading.Thread(target=server.serve_now, daemon=True)
    thread.start()
    try:
        yield Site(server.url, access, tokens or {})
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


class Process:
    """`stayer serve` in a process of its own."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *options: str,
        port: int = 0,
        descriptors: int | None = None,
        access_file: str | None = "access.json",
    ) -> None:
        self.log = folder / "serve.log"
        limited = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"] if descriptors else []
        with open(self.log, "ab") as log:
            self.process = QuickPopen(
                [
                    *limited,
                    sys.executable, "-m", "stayer", "serve", "--store", url, "--port", str(port),
                    *(["--access-file", str(folder / access_file)] if access_file else []),
                    "--login-link", *options,
                ],
                stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        assert self.process.stdout is not None
        first = self.process.stdout.readline()
        found = re.search(r" at (http\S+)", first)
        assert found, (first, self.log.read_text())
        self.url = found[1]
        self.link = self.process.stdout.readline().split()[-1]
        self.port = urlsplit(self.url).port or 0

    def stop(self) -> int:
        """End it; how it ended."""
        with suppress(ProcessLookupError):
            self.process.terminate()
        code = self.process.wait(PATIENCE)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


@dataclass
class Visitor:
    """A browser that has logged in: both of its secrets."""

    cookie: str
    page: str

    @property
    def headers(self) -> dict[str, str]:
        """Of each of its requests."""
        return {"Cookie": self.cookie, "X-Stayer-Request": self.page}


def log_in(site: Site, role: Role = "operate", *, token: str | None = None) -> Visitor:
    """As the login page does, by a link or by a token."""
    shown = {"code": site.access.make_code(role)} if token is None else {"token": token}
    reply = site("POST", "/v1/session", shown, role=None)
    assert reply.status == 200, reply
    return Visitor(reply.headers["set-cookie"].partition(";")[0], reply.json["page"])
