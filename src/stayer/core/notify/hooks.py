"""Hooks of the configuration: who can be told by name, and where tasks may lead us. Pure."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

from stayer.core import units
from stayer.core.errors import BadInput
from stayer.core.notify import mail, notices
from stayer.core.notify.mail import Mail

Format = Literal["json", "text", "slack"]
FORMATS: tuple[Format, ...] = get_args(Format)
SECRET = "whsec_"
"""What a secret begins with, as the Standard Webhooks have it."""
_SHORTEST = 16
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OURS = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "webhook-id",
     "webhook-timestamp", "webhook-signature")
)  # fmt: skip
URL_TIME, COMMAND_TIME = 15.0, 60.0
"""How long a try may take, in seconds, if nobody says."""
LONGEST_TIME = 600.0


Readers: TypeAlias = Mapping[str, Callable[[object], object]]


class Hook(Struct, frozen=True, kw_only=True):
    """Whom to tell, and how: a URL, a command, or a mail server."""

    name: str
    url: str | None = None
    command: tuple[str, ...] | None = None
    mail: Mail | None = None
    format: Format = "json"
    headers: dict[str, str] = {}
    secrets: tuple[str, ...] = ()
    secret_file: str | None = None
    time_limit: float = URL_TIME


class Rules(Struct, frozen=True, kw_only=True):
    """What the table `[notices]` says."""

    deliver: bool = True
    """Whether this process delivers at all."""
    worker_lost: tuple[str, ...] = ()
    """The hooks that hear of lost workers."""
    late: tuple[str, ...] = ()
    """The hooks that hear of every task that is late."""
    no_progress: tuple[str, ...] = ()
    """The hooks that hear of every task that has reported nothing for `no_progress_after`."""
    no_progress_after: float | None = None
    hosts: tuple[str, ...] | None = None
    """Whom tasks may name by URL: names, patterns, networks. None: any public address."""
    secrets: tuple[str, ...] = ()
    secret_file: str | None = None
    """To sign what goes to URLs that tasks name."""
    tries: int = 20
    age: float = 3 * 86400.0
    """After so many tries, or seconds, a notice has failed."""
    time_limit: float = URL_TIME


def read_hook(name: str, table: Mapping[str, object]) -> Hook:
    """Read what `[hooks.NAME]` says, or raise BadInput that says what to fix."""
    if notices.is_url(name) or notices.parse(name) != f"{notices.ENDED}:{name}":
        raise BadInput(f"{name!r} is no name for a hook: write for example [hooks.mail]")
    found = {field: _read(field, value, _HOOK) for field, value in table.items()}
    if ("url" in found) == ("command" in found):
        raise BadInput("say either url or command")
    url = found.get("url")
    kind = "a command" if url is None else "mail" if mail.is_mail(url) else "a URL"
    for field in found:
        if _KINDS.get(field, kind) != kind:
            raise BadInput(f"{field} goes with {_KINDS[field]}, not with {kind}")
    if kind == "mail":
        about = {field: found.pop(field) for field in mail.FIELDS if field in found}
        found["mail"] = mail.read_mail(found.pop("url"), about)
    if kind != "a URL":
        found.setdefault("time_limit", COMMAND_TIME)
    found["secrets"] = found.pop("secret", ())
    return Hook(name=name, **found)


def read_rules(table: Mapping[str, object]) -> Rules:
    """Read what `[notices]` says, or raise BadInput."""
    found = {field: _read(field, value, _RULES) for field, value in table.items()}
    found["secrets"] = found.pop("secret", ())
    rules = Rules(**found)
    if bool(rules.no_progress) != (rules.no_progress_after is not None):
        raise BadInput(
            "no_progress and no_progress_after go together: whom to tell, and after how long"
        )
    return rules


def _read(field: str, value: object, readers: Readers) -> Any:
    if field not in readers:
        raise BadInput(f"no setting is called {field!r}: there are {', '.join(readers)}")
    try:
        return readers[field](value)
    except BadInput as error:
        raise BadInput(f"{field}: {error}") from None


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise BadInput(f"{value!r} is not text")
    return value


def _url(value: object) -> str:
    url = _text(value)
    if mail.is_mail(url):
        return url
    notices.parse(url)
    if not notices.is_url(url):
        raise BadInput(f"{url!r} is no URL: write for example https://example.org/hook")
    return url


def _command(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise BadInput(f'{value!r}: give its words as a list, such as ["mail-me", "ann"]')
    return tuple(map(_text, value))


def _format(value: object) -> str:
    if value not in FORMATS:
        raise BadInput(f"{value!r} is none of {', '.join(FORMATS)}")
    return str(value)


def _headers(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise BadInput('write for example { Authorization = "Bearer …" }')
    for name, content in value.items():
        if not _HEADER.fullmatch(name) or name.lower() in _OURS:
            raise BadInput(f"{name!r} can't be set")
        if not isinstance(content, str) or not content.isascii() or not content.isprintable():
            raise BadInput(f"{name}: give plain text on one line")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise BadInput(f"{value!r} is neither true nor false")
    return value


def _tries(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise BadInput(f"{value!r}: write a number from 1 to 1000")
    return value


def _duration(value: object) -> float:
    return units.duration(value if isinstance(value, str | int | float) else str(value))


def _time_limit(value: object) -> float:
    found = _duration(value)
    if not 0 < found <= LONGEST_TIME:
        raise BadInput(f"{value!r}: write a duration up to {units.format_duration(LONGEST_TIME)}")
    return found


def _positive(value: object) -> float:
    found = _duration(value)
    if found <= 0:
        raise BadInput(f"{value!r}: write a duration above 0, such as 30m")
    return found


def _hosts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadInput(f'{value!r}: give a list, such as ["hooks.example.org", "10.0.0.0/8"]')
    return tuple(_text(each).lower() for each in value)


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise BadInput(f'{value!r}: give a list of hooks, such as ["mail"]')
    return tuple(dict.fromkeys(map(_text, value)))


def _secrets(value: object) -> tuple[str, ...]:
    found = tuple(map(_text, value if isinstance(value, list) else [value]))
    for secret in found:
        key(secret)
    return found


_HOOK: Readers = {
    "url": _url, "command": _command, "format": _format, "headers": _headers, "secret": _secrets,
    "secret_file": _text, "time_limit": _time_limit, "from": mail.address, "to": mail.addresses,
    "user": _text, "password": _text, "password_file": _text, "starttls": _flag, "page": mail.page,
}  # fmt: skip
_KINDS = {
    **dict.fromkeys(("format", "headers", "secret", "secret_file"), "a URL"),
    **dict.fromkeys(mail.FIELDS, "mail"),
}
"""What a setting goes with, if not with all."""
_RULES: Readers = {
    "deliver": _flag, "worker_lost": _names, "late": _names, "no_progress": _names,
    "no_progress_after": _positive, "hosts": _hosts, "secret": _secrets,
    "secret_file": _text, "tries": _tries, "age": _duration, "time_limit": _time_limit,
}  # fmt: skip
HOOK_FIELDS, RULE_FIELDS = tuple(_HOOK), tuple(_RULES)
"""What may stand in the tables `[hooks.NAME]` and `[notices]`."""


def key(secret: str) -> bytes:
    """Return the bytes that a secret stands for; BadInput if it is none, without showing it."""
    try:
        found = base64.b64decode(secret.removeprefix(SECRET), validate=True)
    except (binascii.Error, ValueError):
        found = b""
    if not secret.startswith(SECRET) or len(found) < _SHORTEST:
        raise BadInput(f"a secret is {SECRET} and base64: `stayer notices secret` makes one")
    return found


def parse_secrets(text: str) -> tuple[str, ...]:
    """Read the secrets in a file, one a line, the newest first; lines that begin with # say
    nothing.
    """
    lines = (line.strip() for line in text.splitlines())
    return _secrets([line for line in lines if line and not line.startswith("#")] or [""])


def is_named(hosts: Sequence[str], host: str, addresses: Sequence[str]) -> bool:
    """Return whether a list of hosts has this one: by its name, or by every address that it has."""
    plain = host.lower().rstrip(".")
    if any(fnmatchcase(plain, pattern) for pattern in hosts):
        return True
    networks = [network for each in hosts if (network := _network(each)) is not None]
    known = [ipaddress.ip_address(address) for address in addresses]
    return bool(known) and all(any(each in network for network in networks) for each in known)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All that is given out of IPv6 for the whole Internet. What is outside is old (site-local), of one
network, or stands for an IPv4 address."""
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        # For protocols, for whatever relay is near, for examples: Python takes these for public.
        ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20"),
    )
)


def is_public(address: str) -> bool:
    """Return whether it is an address of the whole Internet, and not of this machine or network,
    also if it stands for such a one in another guise.
    """
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found.teredo is not None:
            inner = found.teredo[1]
        if inner is None and found in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        if inner is not None and not is_public(str(inner)):
            return False
        if found.ipv4_mapped is not None:
            return True
        if found not in _UNICAST:
            return False
    if any(found in network for network in _NOT_PUBLIC):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved)
