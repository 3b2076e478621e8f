"""What `stayer doctor` asks of a Redis server."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from urllib.parse import urlsplit

import redis
from redis.exceptions import NoPermissionError

from stayer.core.errors import StoreError, StoreUnreachable, StoreUnusable
from stayer.core.insight.health import Finding
from stayer.stores.redis import damage, missing_records
from stayer.stores.redis.connection.server import Server
from stayer.stores.redis.errors import node_of_cluster, why_hung_up
from stayer.stores.redis.keys import key
from stayer.stores.redis.scripts import script

OLDEST = (6, 2)
_WITH_FUNCTIONS = (7, 0)
"""Older servers get no security fixes any more."""
_NEARLY_FULL = 0.9
_NONE_TO_SPARE = (
    "when one of them is away, or has become the primary, to submit or take tasks fails"
)
_SPARE = "add a replica, so that one is to spare"
_TRIED = re.compile(r"\{'(\w+)', here")
_NAMED = 8
"""How many commands are named that a user may not use."""
_LOOKS, _A_LOOK = 20, 1000
"""How often a server is asked for so many of its keys when other prefixes are looked for."""


def check(server: Server) -> list[Finding]:
    """Version, memory, persistence, replicas: what each setting can lose."""
    prefix = server.address.prefix
    names = (key(name, prefix) for name in ("incoming", "refused"))
    looks: tuple[Callable[[], list[Finding]], ...] = (
        server.address.check,
        lambda: check_node(server, True),
        lambda: damage.check(server),
        lambda: missing_records.check(server),
        lambda: [check_incoming(server, *names)],
        lambda: _other_prefixes(server),
    )
    return [finding for look in looks for finding in _as_far_as_possible(look)]


def _as_far_as_possible(look: Callable[[], list[Finding]]) -> list[Finding]:
    """A key of another type stops one look, which another has named, and none of the others."""
    try:
        return look()
    except StoreUnusable as error:
        if "WRONGTYPE" not in str(error):
            raise
        return []


def check_node(server: Server, is_primary: bool) -> list[Finding]:
    """The settings of one server, or of one node."""
    try:
        info = _info(server)
    except StoreError as error:
        todo = "let this user run INFO, so that settings can be looked at"
        return [Finding("server", "warn", f"does not tell of itself: {error}", todo)]
    of_primary = _replicas(server, info) if is_primary else []
    return [_version(info), _memory(info), _persistence(server, info), *of_primary]


def refuse_what_will_not_do(server: Server) -> None:
    """A node of a cluster, what is too old, and a user who may do too little."""
    url = server.address.url
    if _is_in_cluster(server):
        raise node_of_cluster(url)
    info = _server_info(server)
    if "sentinel" in (info.get("redis_mode"), info.get("server_mode")):  # the latter in Valkey
        raise _is_sentinel(server)
    version = _numbers(info.get("redis_version", ""))
    if version is not None and version < OLDEST:
        shown, wanted = (".".join(map(str, each)) for each in (version, OLDEST))
        raise StoreUnusable(f"{url} is version {shown}: Stayer needs {wanted} or newer")
    refuse_too_few_rights(server)


def _is_sentinel(server: Server) -> StoreUnusable:
    """It was opened as the server that it watches over."""
    parts = urlsplit(server.address.url)
    masters = server.ask("SENTINEL", "MASTERS")
    services = [dict(zip(each[::2], each[1::2], strict=True))[b"name"].decode() for each in masters]
    service = services[0] if len(services) == 1 else "SERVICE"
    return StoreUnusable(
        f"{server.address.url} is a sentinel: write "
        f"{parts.scheme}+sentinel://{parts.netloc.rpartition('@')[2]}/{service}"
    )


def refuse_too_few_rights(server: Server) -> None:
    """A user who may not do all that scripts do: he would do the half of it."""
    if server.address.user is None:
        return
    refused = _refused_commands(server)
    if refused:
        user, prefix = server.address.user, server.address.prefix.partition(":")[0]
        raise StoreUnusable(
            f"{server.address.url} does not let user {user} do all that Stayer does "
            f"({_in_short(refused, prefix)}): give the rights that it needs, "
            f"redis-cli ACL SETUSER {shlex.quote(user)} {shlex.join(rights(prefix).split())}"
        )


def _in_short(refused: list[str], prefix: str) -> str:
    """Who has no pattern of keys, or no group of commands, is refused tens of them."""
    on_keys = set(_TRIED.findall(script("rights").text))
    if on_keys <= set(refused):
        others = [command for command in refused if command not in on_keys]
        return ", ".join([f"all commands on keys: is the pattern ~{prefix}:* missing?", *others])
    more = f" and {len(refused) - _NAMED} more" if len(refused) > _NAMED else ""
    return f"{', '.join(refused[:_NAMED])}{more}"


def _refused_commands(server: Server) -> list[str]:
    try:
        return list(dict.fromkeys(command.decode() for command in server.run("rights")))
    except StoreUnusable as error:
        if isinstance(error.__cause__, NoPermissionError):
            return ["EVALSHA"]
        raise


def rights(prefix: str) -> str:
    """What a user of Stayer has to be allowed: keys, channels, commands."""
    keys = f"~{prefix}:* ~{{{prefix}:incoming}}:*"
    channels = f"resetchannels &{prefix}:* &__keyspace@*__:{prefix}:incoming"
    return f"{keys} {channels} +@all -@dangerous +info +config|get"


def server_version(server: Server) -> tuple[int, ...] | None:
    """The version of Redis whose commands the server knows; None if it does not tell."""
    return _numbers(_server_info(server).get("redis_version", ""))


def _server_info(server: Server) -> dict[str, str]:
    try:
        return _info(server, "server")
    except StoreUnusable:
        return {}


def _is_in_cluster(server: Server) -> bool:
    """Whether it has only some of the keys; False if it does not tell."""
    try:
        return _info(server, "cluster").get("cluster_enabled") == "1"
    except StoreUnreachable as error:
        hint = why_hung_up(server.address.url, str(error))
        if hint in str(error):
            raise
        raise StoreUnreachable(f"{error}{hint}") from error
    except StoreUnusable:
        return False


def _numbers(version: str) -> tuple[int, ...] | None:
    parts = version.split(".")[:2]
    return tuple(map(int, parts)) if all(part.isdigit() for part in parts) else None


def _info(server: Server, *section: str) -> dict[str, str]:
    lines = server.ask("INFO", *section).decode().splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {name: value for name, _, value in pairs}


def _setting(server: Server, name: str) -> str | None:
    """None where this user may not ask, as with most hosted servers."""
    try:
        answer = server.ask("CONFIG", "GET", name)
    except StoreError:
        return None
    return answer[1].decode() if answer else None


def _version(info: dict[str, str]) -> Finding:
    name, version = "Redis", info.get("redis_version", "unknown")
    if "valkey_version" in info:
        name, version = "Valkey", info["valkey_version"]
    message = f"{name} {version}, asked by redis-py {redis.__version__}"
    numbers = _numbers(info.get("redis_version", ""))
    if numbers is not None and numbers < _WITH_FUNCTIONS:
        todo = "upgrade it: this version gets no more security fixes"
        return Finding("server", "warn", message, todo)
    return Finding("server", "ok", message)


def _memory(info: dict[str, str]) -> Finding:
    policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", 0))
    if policy == "noeviction":
        message = f"maxmemory {info.get('maxmemory_human', limit)}" if limit else "no maxmemory"
        used = int(info.get("used_memory", 0)) / limit if limit else 0.0
        if used > _NEARLY_FULL:
            todo = (
                "raise maxmemory, or forget what has ended (`stayer purge --older 1d`); what waits "
                "can be cancelled first (`stayer cancel -q QUEUE --state pending`)"
            )
            is_full = used >= 1.0
            then = "no task is taken" if is_full else "a full server takes no tasks"
            message = f"{used:.0%} of {message} is used: {then}"
            return Finding("memory", "fail" if is_full else "warn", message, todo)
        return Finding("memory", "ok", f"{message}, nothing is evicted")
    todo = "set maxmemory-policy noeviction: a full server then refuses tasks and loses nothing"
    if policy.startswith("volatile"):
        message = (
            f"maxmemory-policy is {policy}: a full server forgets what is kept for a time, such as "
            "ids of deleted tasks, which are accepted again then"
        )
        return Finding("memory", "warn", message, todo)
    message = f"maxmemory-policy is {policy}: a full server throws tasks away"
    return Finding("memory", "fail" if limit else "warn", message, todo)


def _persistence(server: Server, info: dict[str, str]) -> Finding:
    if info.get("aof_enabled") == "1":
        how = _setting(server, "appendfsync") or "unknown"
        lost = {"always": "nothing", "everysec": "about a second"}.get(how, "what the system likes")
        message = f"appendonly, fsync {how}: a power cut can lose {lost}"
        if how == "no":
            return Finding("persistence", "warn", message, "set appendfsync everysec")
        return Finding("persistence", "ok", message)
    snapshots = _setting(server, "save")
    if snapshots == "":
        message = "neither appendonly nor snapshots: a restart loses every task"
        return Finding("persistence", "fail", message, "set appendonly yes")
    message = "no appendonly: a crash loses all since the last snapshot"
    return Finding("persistence", "warn", message, "set appendonly yes")


def _replicas(server: Server, info: dict[str, str]) -> list[Finding]:
    if info.get("role") == "slave":
        message = "this is a replica: it takes no tasks"
        return [Finding("replicas", "fail", message, "give the URL of its primary")]
    number, needed = int(info.get("connected_slaves", 0)), server.address.replicas
    if number < needed:
        message = (
            f"{number} connected, but the URL wants {needed} to confirm: who submits or takes "
            "tasks gets an error, though the primary has done it"
        )
        todo = f"write wait={number}" if number else "leave wait out"
        return [Finding("replicas", "fail", message, f"fix them, or {todo}")]
    if not number:
        return []
    wanted = _setting(server, "min-replicas-to-write")
    if wanted is None or int(wanted) > 0:
        message = f"{number} connected, {wanted or 'some'} needed to write"
        message += f", {needed} to confirm" if needed else ""
        if number > max(needed, int(wanted or 0)):
            return [Finding("replicas", "ok", message)]
        return [Finding("replicas", "warn", f"{message}: {_NONE_TO_SPARE}", _SPARE)]
    message = (
        f"{number} connected, but a primary that is cut off from them goes on taking tasks, which "
        "a failover loses"
    )
    if needed:  # so nobody hears that a task was taken; but beats don't wait for them
        message = (
            f"{number} connected, {needed} to confirm, but a primary that is cut off from them "
            "goes on renewing leases: what runs there may be given to another after a failover"
        )
    todo = "set min-replicas-to-write 1"
    if number == needed:
        message, todo = f"{message}; {_NONE_TO_SPARE}", f"{todo}, and {_SPARE}"
    return [Finding("replicas", "warn", message, todo)]


def _other_prefixes(server: Server) -> list[Finding]:
    """If nothing is here: perhaps it is next door. Looks at some keys only, for it is a hint."""
    mine = server.address.prefix
    if server.ask("EXISTS", key("queues", mine)):
        return []
    cursor, found = b"0", set[str]()
    with suppress(StoreUnusable):  # not everybody may ask
        for _ in range(_LOOKS):
            cursor, names = server.ask("SCAN", cursor, "MATCH", key("meta", "*"), "COUNT", _A_LOOK)
            found |= {name.decode(errors="replace").rpartition(":")[0] for name in names}
            if cursor == b"0":
                break
    others = sorted(found - {mine})
    if not others:
        return []
    message = f"there are no tasks below {mine!r}, but there may be some below {', '.join(others)}"
    todo = f"if these are meant, write prefix={others[0]} in the URL"
    return [Finding("prefix", "warn", message, todo)]


def check_incoming(server: Server, list_of: str, refused: str) -> Finding:
    """What came in from outside, and what was of no use."""
    waiting, useless = (server.ask("LLEN", name) for name in (list_of, refused))
    if not useless:
        return Finding("incoming", "ok", f"{waiting:,} waiting in the list, none refused")
    todo = f"look (LRANGE {refused} 0 9), then forget (DEL {refused})"
    what = "1 item was" if useless == 1 else f"{useless:,} items were"
    return Finding("incoming", "warn", f"{what} of no use", todo)
