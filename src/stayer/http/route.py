"""What a route is, and finding the one that a request means."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    NamedTuple,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Union,
    Unpack,
    get_args,
    get_origin,
)
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from stayer.config.submitter import describe_token
from stayer.core import codec
from stayer.core.decoding import convert, decode_json
from stayer.core.errors import BadInput
from stayer.core.model import JSON, Task
from stayer.core.submit import decode_errors
from stayer.http.limits import client_of
from stayer.http.scopes import confine_task
from stayer.http.session import Principal
from stayer.http.token_records import Role
from stayer.store import Store

if TYPE_CHECKING:
    from stayer.http.service import Service

T = TypeVar("T")
A = TypeVarTuple("A")

INLINE_BODY_BYTES = 16_000
"""Bodies of so many bytes are read in passing: sooner than a thread is found for them."""
_FIELDS_LIMIT = 2000
JSON_MEDIA = "application/json"
EVENT_STREAM = "text/event-stream"
SESSION = "/v1/session"


Headers: TypeAlias = Mapping[bytes, bytes]
"""Of a request, as they came, by their names in small letters."""


class Answer(NamedTuple):
    """What a route says: JSON, or a response that is something else."""

    content: JSON | msgspec.Raw
    """Raw: it is JSON already."""
    status: int = 200
    headers: Mapping[str, str] | None = None


class Call(NamedTuple):
    """One request to one route, already let in and understood."""

    service: Service
    scope: Scope
    headers: Headers
    who: Principal | None
    path: dict[str, str]
    query: Any
    body: Any
    receive: Receive

    @property
    def request(self) -> Request:
        """For those who want more of it than headers; made when it is asked for, as few do."""
        return Request(self.scope)

    @property
    def store(self) -> Store:
        return self.service.store

    def record(self, task: Task) -> dict[str, JSON]:
        """Return a task as who asks may see it: no route shows one otherwise."""
        return codec.record(confine_task(self.who, task))

    async def ask(self, function: Callable[[Unpack[A]], T], *arguments: *A) -> T:
        """Run something that asks the store, in a thread, when it is this token's turn."""
        return await self.service.ask(self.who or self._anonymous(), function, *arguments)

    @property
    def submitter(self) -> str | None:
        """Who submits with this call, as its tasks say it."""
        if not self.service.settings.names_submitters or self.who is None:
            return None
        client = self.scope.get("client")
        return describe_token(self.who.name, client[0] if client else None)

    def _anonymous(self) -> str:
        """The account of somebody who is not known. Who logs in has one of their own, by address:
        neither the files of the page, which anybody may ask for, nor others' tries keep them out.
        """
        if self.scope["method"] in ("GET", "HEAD"):
            return ""
        client = self.scope["client"]
        return f"login {client_of(client[0]) if client else ''}"


Outcome: TypeAlias = "Answer | Response | JSON"
Handler: TypeAlias = Callable[[Call], Outcome]
AsyncHandler: TypeAlias = Callable[[Call], "Awaitable[Answer | Response]"]


class Route(Struct, frozen=True, kw_only=True):
    """One line of the table."""

    method: str
    path: str
    """`{name}` stands for one segment."""
    role: Role | None
    """None: for anybody."""
    summary: str
    run: Handler | None = None
    """Called in a thread, because stores block."""
    wait: AsyncHandler | None = None
    """Instead of `run`: waits for events, and must not block."""
    query: type[Struct] | None = None
    body: type | None = None
    body_schema: Mapping[str, JSON] | None = None
    """Of a body that `run` reads itself (`body` is bytes)."""
    body_media: str = JSON_MEDIA
    """What the body has to be. Another than JSON: it comes to `run` as it is."""
    body_needed: bool = False
    answer: str | None = None
    """The schema of the answer (see `openapi.SCHEMAS`); None: no content, or `media`."""
    status: tuple[int, ...] = (200,)
    media: tuple[str, ...] = (JSON_MEDIA,)
    problems: tuple[int, ...] = ()
    """What can go wrong beside what can go wrong everywhere."""

    @property
    def is_timed(self) -> bool:
        """Whether its duration says anything: that of who waits for events does not."""
        return self.wait is None or self.method != "GET"

    @property
    def changes(self) -> bool:
        """Whether it changes something, or who is let in: then it is written down who did it."""
        if self.method in ("GET", "HEAD"):
            return False
        return self.role in ("submit", "operate") or self.path == SESSION


class Found(NamedTuple):
    """A route, and what stands for the names in its path."""

    route: Route
    path: dict[str, str]


class _Node:
    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.any: tuple[str, _Node] | None = None
        self.routes: dict[str, Route] = {}


class Routes:
    """The table as a tree. Works on the raw path, so that an id may hold a slash (`%2F`)."""

    def __init__(self, table: tuple[Route, ...]) -> None:
        self._root = _Node()
        for route in table:
            node = self._root
            for part in route.path.split("/")[1:]:
                if part.startswith("{"):
                    if node.any is None:
                        node.any = (part[1:-1], _Node())
                    assert node.any[0] == part[1:-1], route.path
                    node = node.any[1]
                else:
                    node = node.words.setdefault(part, _Node())
            assert route.method not in node.routes, route.path
            node.routes[route.method] = route
        self._plain = {
            (route.method, route.path): Found(route, {}) for route in table if "{" not in route.path
        }

    def find(self, method: str, path: str) -> Found | set[str]:
        """Find the route, or the methods that the path has (none: there is no such path)."""
        plain = self._plain.get((method, path))
        return self._search(method, path) if plain is None else plain

    def _search(self, method: str, path: str) -> Found | set[str]:
        nodes: list[tuple[_Node, dict[str, str]]] = [(self._root, {})]
        for part in path.split("/")[1:]:
            # A word goes before a name: /tasks/cancel is the verb where there is one, else an id.
            matches = [(node.words[part], names) for node, names in nodes if part in node.words]
            named = [
                (node.any[1], {**names, node.any[0]: part})
                for node, names in nodes
                if node.any is not None and part
            ]
            nodes = [*matches, *named]
        for node, names in nodes:
            route = node.routes.get("GET" if method == "HEAD" else method)
            if route is not None and (method != "HEAD" or route.wait is None):
                return Found(route, {name: _unquote(part) for name, part in names.items()})
        return {allowed for node, _ in nodes for allowed in node.routes}


def _unquote(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise BadInput(f"{part} in the path is not UTF-8, percent-encoded") from None


def read_query(kind: type[Struct] | None, raw: bytes) -> Struct | None:
    """Read the query as the route understands it; BadInput says what it does not."""
    if kind is None and not raw:
        return None
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, errors="strict",
            max_num_fields=_FIELDS_LIMIT,
        )  # fmt: skip
    except UnicodeError:
        raise BadInput("the query is not UTF-8, percent-encoded: fix its encoding") from None
    except ValueError:
        raise BadInput(f"the query has over {_FIELDS_LIMIT} parameters: ask in parts") from None
    fields = {} if kind is None else _fields(kind)
    values: dict[str, object] = {}
    for name, text in pairs:
        if name not in fields:
            known = f"there are {', '.join(fields)}" if fields else "there are none here"
            raise BadInput(f"no parameter is called {name!r}: {known}")
        if fields[name] is tuple:
            several = values.setdefault(name, {})
            assert isinstance(several, dict)
            several[text] = None  # said twice it means no more
        elif name in values:
            raise BadInput(f"parameter {name!r} is there twice: give it once")
        else:
            values[name] = text or "true" if fields[name] is bool else text
    if kind is None:
        return None
    try:
        listed = {name: list(each) for name, each in values.items() if isinstance(each, dict)}
        return convert(values | listed, kind, strict=False)
    except msgspec.ValidationError as error:
        raise BadInput(f"query: {describe_error(error, kind)}") from None


@cache
def _fields(kind: type[Struct]) -> dict[str, object]:
    """The bare type of each parameter: `tuple` may be repeated, `bool` may be without a value."""
    return {field.name: _bare(field.type) for field in msgspec.structs.fields(kind)}


def _bare(hint: Any) -> object:
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        [bare] = [_bare(each) for each in get_args(hint) if each is not type(None)]
        return bare
    return get_origin(hint) or hint


def read_body(kind: type | None, raw: bytes) -> Any:
    """Read the body as the route understands it; BadInput says what it does not."""
    if kind is None:
        if raw and raw.strip() not in (b"{}", b"null"):
            raise BadInput("this takes no body: leave it out")
        return None
    if kind is bytes:
        return raw
    try:
        return decode_json(raw or b"{}", kind)
    except msgspec.ValidationError as error:
        raise BadInput(f"body: {describe_error(error, kind)}") from None
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"the body is not JSON: {error}") from None


def describe_error(error: msgspec.ValidationError, kind: type) -> str:
    """Say what is wrong, with the field in front."""
    problem, field = decode_errors.split(str(error))
    text = decode_errors.in_words(problem, field, kind)
    return f"{field}: {text}" if field else text
