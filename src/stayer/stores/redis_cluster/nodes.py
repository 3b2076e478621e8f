"""The nodes of a cluster: which one has which slot, and asking the right one."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from redis.crc import key_slot
from redis.exceptions import RedisError

from stayer.core.errors import StoreError, StoreUnreachable, StoreUnusable
from stayer.stores.redis.connection.server import Call, Server
from stayer.stores.redis.connection.url import (
    Address,
    Options,
    arguments_of,
    bad_url,
    hosts_of,
    login_and_hosts,
    read_options,
    split,
    without_secrets,
)
from stayer.stores.redis.damage import may_be_damage
from stayer.stores.redis.errors import Moved
from stayer.stores.redis.keys import key
from stayer.stores.redis.replica_acks import Unconfirmed

PORT = 6379
SLOTS = 16384
_FORM = "redis+cluster://host:6379,host:6379"
_NAMES_A_CALL = 1000
_REDIRECTS = 5
"""How often one may be sent elsewhere before it is taken for a quarrel among the nodes."""

_ABSENT_S = 5.0

T = TypeVar("T")
Host = tuple[str, int]
Part = tuple[int, int, list[Host]]
"""First and last slot of a part of the cluster, and its nodes, the primary first."""


class Guard:
    """A lock. After a fork it is free: the thread that had it is not there to let it go."""

    def __init__(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            self._lock, self._pid = threading.Lock(), os.getpid()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Nodes:
    """The nodes that answer for the slots, as far as is known; learnt anew when they say so."""

    def __init__(self, url: str, clock: Callable[[], float] | None) -> None:
        """`redis+cluster://[[user]:password@]host[:port][,host…][?…]`: some of its nodes."""
        self.options: Options = read_options(url)
        parts = split(url)
        if parts.path.strip("/"):
            raise bad_url(url, f"a cluster has one database only: write {_FORM}")
        login, hosts = login_and_hosts(parts)
        plain = f"{parts.scheme.partition('+')[0]}://{login}node?{urlencode(self.options.left)}"
        self._connection, self._arguments = arguments_of(url, plain, self.options)
        self.user: str | None = self._arguments.get("username")
        self._seeds = hosts_of(url, hosts, PORT, _FORM)
        self.url = without_secrets(url)
        self._clock = clock
        self._servers: dict[Host, Server] = {}
        self._guard = Guard()
        self._starts: list[int] = []
        self._owners: list[Host | None] = []
        self._last_asked: list[Host] = []
        self.lessons = 0
        """How often it was asked who has which slot: after a failover once more."""
        self._silent: set[Host] = set()
        self.mend: Callable[[str], bool] = lambda _: False
        """Sets aside what can't be read beside this key; whether there was something."""
        self._absent_until: dict[Server, float] = {}

    def at(self, key: str, what: Callable[[Server], T]) -> T:
        """Do it at the node that has the key."""
        for _ in range(_REDIRECTS):
            server = self.server_of(key)
            try:
                return what(server)
            except Moved:
                self.forget()
            except Unconfirmed:
                raise  # it is there, and the one
            except StoreUnreachable:
                self.forget()  # another node may have taken its place
                raise
        raise self._redirect_loop_error()

    def ask(self, key: str, *command: Any) -> Any:
        """What the node that has the key answers to a plain command."""
        try:
            return self.at(key, lambda server: server.ask(*command))
        except StoreUnusable as error:
            if not may_be_damage(error) or not self.mend(key):
                raise
        return self.at(key, lambda server: server.ask(*command))

    def add_names(
        self, list_of: str, names: Iterable[str], which: str = "", *, waits: bool = True
    ) -> int:
        """Write names down in a set that others go by; how many are new. `waits`: until replicas
        have confirmed it, where the URL asks for that.
        """
        given = list(names)
        place = key(list_of, self.options.prefix, worker=which, copy=which)
        steps = [given[at : at + _NAMES_A_CALL] for at in range(0, len(given), _NAMES_A_CALL)]
        calls = [Call(place, "enlist", (list_of, which, *some), waits=waits) for some in steps]
        return sum(self.run_many(calls)) if calls else 0

    def run_many(self, calls: Sequence[Call]) -> list[Any]:
        """What the scripts answer, each at the node of its key, a round trip a node."""
        answers = self._try_many(calls, give_up=True)
        for answer in answers:
            if isinstance(answer, StoreUnreachable):
                raise answer
        return answers

    def try_many(self, calls: Sequence[Call]) -> list[Any]:
        """Run the scripts; where a node can't be reached, the error stands for the answer."""
        return self._try_many(calls, give_up=False)

    def _try_many(self, calls: Sequence[Call], *, give_up: bool) -> list[Any]:
        """To give up is to ask no others when a node can't be reached."""
        answers: list[Any] = [None] * len(calls)
        left = list(range(len(calls)))
        for _ in range(_REDIRECTS):
            left = self._run_many(calls, left, answers, give_up)
            if not left:
                return answers
            self.forget()
        raise self._redirect_loop_error()

    def _run_many(
        self, calls: Sequence[Call], left: list[int], answers: list[Any], give_up: bool
    ) -> list[int]:
        """What is left: what has moved."""
        groups: dict[int, tuple[Server, list[int]]] = {}
        for number in left:
            try:
                server = self.server_of(calls[number].key)
            except StoreUnreachable as error:
                answers[number] = error
                if give_up:
                    return []
                continue
            groups.setdefault(id(server), (server, []))[1].append(number)
        redirects: list[int] = []
        for server, numbers in groups.values():
            try:
                found = server.run_many(self.options.prefix, [calls[each] for each in numbers])
            except StoreUnreachable as error:
                if not isinstance(error, Unconfirmed):
                    self.forget()
                for number in numbers:
                    answers[number] = error
                if give_up:
                    return []
                continue
            for number, answer in zip(numbers, found, strict=True):
                answers[number] = answer
                if isinstance(answer, Moved):
                    redirects.append(number)
                elif isinstance(answer, StoreUnusable):
                    answers[number] = self._retry_after_mending(calls[number], answer)
        return redirects

    def _retry_after_mending(self, call: Call, error: StoreUnusable) -> Any:
        """What the script answers after what it could not read was set aside."""
        if not may_be_damage(error) or not self.mend(call.key):
            raise error
        prefix = call.prefix or self.options.prefix
        return self.at(
            call.key, lambda server: server.run_at(prefix, (call.key,), call.name, *call.arguments)
        )

    def primaries(self) -> list[Server]:
        """All that have slots."""
        with self._guard:
            if not self._starts:
                self._learn()
            return [self._server(host) for host in dict.fromkeys(filter(None, self._owners))]

    def has_silent_replicas(self) -> bool:
        """Replicas have not confirmed what a node was last asked for."""
        with self._guard:
            return any(server.replicas.confirm is False for server in self._servers.values())

    def absent(self) -> set[Server]:
        """The nodes to which no connection can be opened, so that nothing was asked of them, or
        whose replicas are not there to confirm what is; one that is away is believed to be so for a
        moment.
        """
        found: set[Server] = set()
        for server in self.primaries():
            if time.monotonic() >= self._absent_until.get(server, 0.0):
                try:
                    if not server.can_confirm():
                        found.add(server)
                    continue
                except StoreUnreachable:
                    self.forget()
                    self._absent_until[server] = time.monotonic() + _ABSENT_S
            found.add(server)
        return found

    def parts(self) -> list[Part]:
        """List the parts of the slots, as one of the nodes sees them."""
        failed: StoreUnreachable | None = None
        for server in self.primaries():
            try:
                return [_part(*answer) for answer in server.ask("CLUSTER", "SLOTS")]
            except StoreUnreachable as error:
                failed = error
        raise failed or self._redirect_loop_error()

    def at_host(self, host: Host) -> Server:
        """A node, whichever slots it has."""
        with self._guard:
            return self._server(host)

    def forget(self) -> None:
        """Ask again who has which slot."""
        with self._guard:
            self._starts, self._owners = [], []

    def close(self) -> None:
        with self._guard:
            servers = list(self._servers.values())
        for server in servers:
            server.close()

    def server_of(self, key: str) -> Server:
        """The node that has the key, as far as is known."""
        slot = key_slot(key.encode())
        with self._guard:
            if not self._starts:
                self._learn()
            owner = self._owners[bisect_right(self._starts, slot) - 1]
            if owner is not None:
                return self._server(owner)
            self._starts = []
        raise StoreUnreachable(f"{self.url}: no node has slot {slot} at the moment")

    def _server(self, host: Host) -> Server:
        if host not in self._servers:
            self._servers[host] = Server(self._address(host), self._clock)
        return self._servers[host]

    def _address(self, host: Host) -> Address:
        def open_connection() -> Any:
            given = {**self._arguments, "host": host[0], "port": host[1]}
            connection = self._connection(**given)
            connection.connect()
            return connection

        return Address(
            url=self.url,
            prefix=self.options.prefix,
            database=0,
            open=open_connection,
            moves=True,
            replicas=self.options.replicas,
            confirming=self.options.confirming,
            user=self.user,
            is_part=True,
        )

    def _learn(self) -> None:
        """Who has which slots, from the first node that knows somebody for all of them."""
        reasons: dict[str, list[str]] = {}
        most = 0
        for host in self._hosts_in_turn():
            name = f"{host[0]}:{host[1]}"
            try:
                answer = self._server(host).ask("CLUSTER", "SLOTS")
            except StoreUnusable as error:
                if "cluster support disabled" in str(error):
                    raise self._no_cluster(host) from error
                raise
            except (StoreError, RedisError) as error:
                self._silent.add(host)
                reason = str(error).removeprefix(self.url).lstrip(": ").replace(name, "it")
                reasons.setdefault(reason, []).append(name)
                continue
            self._silent.discard(host)
            covered = sum(int(end) - int(start) + 1 for start, end, *_ in answer)
            if covered > most:
                most = covered
                self._take(answer, host)
            if covered == SLOTS:
                return
            reasons.setdefault(f"knows of {covered or 'no'} slots", []).append(name)
        if not most:
            # In the same words each time, whoever is asked first: it is told once, not each time.
            parts = (f"{', '.join(sorted(names))}: {why}" for why, names in reasons.items())
            what = (
                "no node has a slot" if "knows of no slots" in reasons else "no node can be reached"
            )
            raise StoreUnreachable(f"{self.url}: {what} ({'; '.join(sorted(parts))})")

    def _hosts_in_turn(self) -> list[Host]:
        """Who told last comes last, for it may be cut off from the others, and know nothing of what
        they have decided since; after all others, who did not answer.
        """
        hosts = dict.fromkeys([*self._servers, *self._seeds])
        in_turn = [*(host for host in hosts if host not in self._last_asked), *self._last_asked]
        return sorted(in_turn, key=lambda host: host in self._silent)

    def _take(self, answer: Any, source: Host) -> None:
        self.lessons += 1
        self._last_asked = [*(host for host in self._last_asked if host != source), source]
        self._starts, self._owners = [0], [None]
        for start, end, primary, *_ in sorted(answer, key=lambda part: int(part[0])):
            host = (primary[0] or b"").decode() or source[0]
            if self._starts[-1] == start:
                self._owners[-1] = (host, int(primary[1]))
            else:
                self._starts.append(start)
                self._owners.append((host, int(primary[1])))
            self._starts.append(end + 1)
            self._owners.append(None)

    def _no_cluster(self, host: Host) -> StoreUnusable:
        return StoreUnusable(
            f"{self.url}: {host[0]}:{host[1]} is a server of its own, not a node of a cluster: "
            "write redis:// in front of it"
        )

    def _redirect_loop_error(self) -> StoreUnreachable:
        return StoreUnreachable(f"{self.url}: its nodes send from one to the other: try again")


def _part(start: Any, end: Any, *nodes: Any) -> Part:
    hosts = [((host or b"").decode(), int(port)) for host, port, *_ in nodes]
    return int(start), int(end), hosts
