"""Mail: what a hook of the configuration says of it, and the text of a notice as mail. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from stayer.core import codec
from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.notify import notices
from stayer.core.notify.notices import Notice
from stayer.core.units import format_duration, rfc3339

SCHEMES = ("smtp", "smtps")
FIELDS = ("from", "to", "user", "password", "password_file", "starttls", "page")
"""What may stand in the table of a hook whose URL is that of a mail server, and of no other."""
PASSWORD_VARIABLE = "STAYER_SMTP_PASSWORD"
"""The environment variable with the password, if the hook names a user and no password."""
_SUBMISSION, _TLS, _RELAY = 587, 465, 25
_ADDRESS = re.compile(r"[^\s@<>,;:\"\\]+@[^\s@<>,;:\"\\]+")
_URL = re.compile(
    r"(?P<scheme>smtps?)://((?P<user>[^/?#@:]+)(:(?P<password>[^/?#@]*))?@)?"
    r"(?P<host>[^/?#@:\[\]\s]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>\d{1,5}))?/?",
    re.IGNORECASE,
)
_ESCAPED = re.compile(rb"%([0-9A-Fa-f]{2})")
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~")
_EXAMPLE = "write for example smtp://ann@mail.example.org or smtps://mail.example.org:465"
_LOOPBACK = re.compile(r"localhost|127\.[0-9.]+|::1")
_RESULT_LIMIT, _LINE_LIMIT, _TAIL_LINES = 2_000, 500, 20


class Mail(Struct, frozen=True, kw_only=True):
    """A mail server, who writes, and to whom."""

    host: str
    port: int
    has_tls: bool
    """TLS from the first byte on (`smtps`)."""
    starttls: bool | None
    """Always, never, or (None) if the server offers it."""
    user: str | None
    password: str | None
    password_file: str | None
    sender: str
    to: tuple[str, ...]
    page: str | None
    """Where the web page is, for links."""

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine: nobody is between."""
        return _LOOPBACK.fullmatch(self.host) is not None


def is_mail(url: object) -> bool:
    """Return whether a URL is that of a mail server."""
    return isinstance(url, str) and url.partition("://")[0].lower() in SCHEMES


def read_mail(url: str, table: Mapping[str, Any]) -> Mail:
    """Read where mail goes, from what the hook says beside its URL; BadInput says what to fix."""
    parts = _URL.fullmatch(url)
    if parts is None or int(parts["port"] or 1) > 65535:
        # What it is, is not shown: a password may be in it.
        raise BadInput(f"url: name the mail server and no more: {_EXAMPLE}")
    has_tls, in_url = parts["scheme"].lower() == "smtps", _decode(parts["user"])
    for field in ("from", "to"):
        if field not in table:
            raise BadInput(f'{field} is missing: write for example {field} = "ann@example.org"')
    if in_url and "user" in table:
        raise BadInput("user is in url already: name it once")
    user = in_url or table.get("user")
    passwords = [name for name in ("password", "password_file") if name in table]
    if parts["password"]:
        passwords.append("url")
    if len(passwords) > 1:
        raise BadInput(f"the password is in {' and in '.join(passwords)}: give it once")
    if passwords and not user:
        raise BadInput("user is missing: a password goes with one")
    if has_tls and "starttls" in table:
        raise BadInput("starttls goes with smtp://: smtps:// is encrypted from the beginning")
    usual = _TLS if has_tls else _SUBMISSION if user else _RELAY
    return Mail(
        host=parts["host"].strip("[]"),
        port=int(parts["port"] or usual),
        has_tls=has_tls,
        starttls=table.get("starttls"),
        user=user,
        password=_decode(parts["password"]) or table.get("password"),
        password_file=table.get("password_file"),
        sender=table["from"],
        to=table["to"],
        page=table.get("page"),
    )


def _decode(text: str | None) -> str | None:
    """Read a part of a URL, with %XX for what can't stand in it."""
    if text is None:
        return None
    pieces = _ESCAPED.split(text.encode())
    return b"".join(
        bytes.fromhex(piece.decode()) if number % 2 else piece
        for number, piece in enumerate(pieces)
    ).decode("utf-8", "replace")


def _encode(text: str) -> str:
    return "".join(
        chr(byte) if chr(byte) in _PLAIN else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )


def address(value: object) -> str:
    """Read an address such as ann@example.org."""
    if not isinstance(value, str) or not value.isascii() or not _ADDRESS.fullmatch(value):
        raise BadInput(f"{value!r} is no address: write for example ann@example.org")
    return value


def addresses(value: object) -> tuple[str, ...]:
    """Read one address or a list of them."""
    found = tuple(map(address, value if isinstance(value, list) else [value]))
    if not found:
        raise BadInput("name at least one address")
    return found


def page(value: object) -> str:
    """Read where the web page is."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[!-~]+", value):
        raise BadInput(f"{value!r} is no URL: write for example https://stayer.example.org")
    return value.rstrip("/#")


def subject(notice: Notice) -> str:
    """Say what happened on one line."""
    return " ".join(notices.sentence(notice).split())


def text(notice: Notice, page: str | None = None) -> str:
    """Say what happened, to which task, how long it ran, how it ended, and where to look."""
    lines = [notices.sentence(notice), ""]
    lines += [f"{name + ':':12}{value}" for name, value in _facts(notice.record, notice)]
    if error := _last_lines(notice.record.get("error")):
        lines += ["", "The end of its output or traceback:", *(f"  {line}" for line in error)]
    lines += ["", "Look at it:", *(f"  {place}" for place in _places(notice, page))]
    return "\n".join(lines) + "\n"


def _facts(record: Mapping[str, JSON], notice: Notice) -> list[tuple[str, str]]:
    if notice.event == notices.WORKER_LOST:
        return _worker_facts(record, notice)
    state = str(record.get("state") or notice.event)
    ending = record.get("ending")
    found: list[tuple[str, object]] = [
        ("task", notice.task),
        ("name", record.get("name")),
        ("queue", notice.queue),
        ("state", f"{state} ({ending})" if ending and ending not in ("done", state) else state),
        ("attempt", notice.attempt),
        ("node", record.get("node")),
        ("started", record.get("started_at")),
        ("time", rfc3339(notice.at)),
        ("duration", _duration(record)),
        ("result", _result(record)),
        ("error", _error(record.get("error"))),
    ]
    return [(name, _one_line(str(value))) for name, value in found if value not in (None, "")]


def _worker_facts(record: Mapping[str, JSON], notice: Notice) -> list[tuple[str, str]]:
    tasks, queues = record.get("tasks"), record.get("queues")
    ran = [
        f"{task.get('id')} (queue {task.get('queue')}, attempt {task.get('attempt')})"
        for task in (tasks if isinstance(tasks, list) else [])
        if isinstance(task, dict)
    ]
    found = [
        ("worker", str(record.get("worker"))),
        ("node", str(record.get("node"))),
        ("last beat", str(record.get("last_beat"))),
        ("noticed", rfc3339(notice.at)),
        ("queues", ", ".join(map(str, queues if isinstance(queues, list) else []))),
        *(("it ran", each) for each in ran),
    ]
    return [(name, _one_line(value)) for name, value in found if value]


def _duration(record: Mapping[str, JSON]) -> str | None:
    """Say how long its last attempt ran."""
    try:
        began, ended = (
            datetime.fromisoformat(str(record.get(name))) for name in ("started_at", "finished_at")
        )
    except ValueError:
        return None
    return format_duration((ended - began).total_seconds())


def _result(record: Mapping[str, JSON]) -> str | None:
    if "result" in (record.get("left_out") or ()):  # type: ignore[operator]
        return "too long for a mail"
    result = record.get("result")
    return None if result is None else codec.encode(result)[:_RESULT_LIMIT]


def _error(error: JSON) -> str | None:
    if not isinstance(error, dict):
        return None
    return f"{error.get('type')}: {error.get('message') or ''}".rstrip(": ")


def _last_lines(error: JSON) -> list[str]:
    trace = error.get("traceback") if isinstance(error, dict) else None
    if not isinstance(trace, str):
        return []
    return [line[:_LINE_LIMIT] for line in trace.strip().splitlines()[-_TAIL_LINES:]]


def _places(notice: Notice, page: str | None) -> list[str]:
    if notice.event == notices.WORKER_LOST:
        return ["stayer workers", *([] if page is None else [f"{page}/#/nodes"])]
    found = [f"stayer show {notice.task}", f"stayer log {notice.task}"]
    return found if page is None else [*found, f"{page}/#/task/{_encode(notice.task)}"]


def _one_line(value: str) -> str:
    return " ".join(value.split())[:_RESULT_LIMIT]
