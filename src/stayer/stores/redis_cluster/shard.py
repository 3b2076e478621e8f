"""One queue of a cluster: a server as the single store knows it, wherever it is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from stayer.core.errors import StoreUnusable
from stayer.core.model import Report
from stayer.core.worker_model import Beat, Worker
from stayer.store import Meanwhile
from stayer.stores.redis import RedisStore
from stayer.stores.redis import workers as beats
from stayer.stores.redis.connection.server import Call, Server
from stayer.stores.redis.connection.url import Address
from stayer.stores.redis.damage import Mending, may_be_damage
from stayer.stores.redis_cluster.nodes import Nodes


class Shard(Server):
    """All that is below the prefix of a queue; it is in one slot, so on one node.

    Every call names a key that is never there. A node that is giving its slot away answers for such
    a key that another one has to be asked (ASK), which nobody does: so no script ever finds half
    of its keys, and what is being moved waits until it has been.
    """

    def __init__(self, nodes: Nodes, tag: str, clock: Callable[[], float] | None) -> None:
        options = nodes.options
        self._nowhere = f"{options.prefix}:{{{tag}}}:nowhere"
        super().__init__(
            Address(
                url=nodes.url,
                prefix=f"{options.prefix}:{{{tag}}}",
                database=0,
                open=lambda: nodes.server_of(self._nowhere).open_connection(),
                moves=True,
                replicas=options.replicas,
                confirming=options.confirming,
                user=nodes.user,
                is_part=True,
            ),
            clock,
        )
        self._nodes = nodes
        self.mending = Mending(self)

    def node(self) -> Server:
        """Return the node that has it now, as far as is known."""
        return self._nodes.server_of(self._nowhere)

    def sound(self) -> bool:
        """Raises Unconfirmed if replicas don't confirm what is written here, where that is known of
        its node: better than to change something that has to be confirmed, and to fail then.
        """
        if self.node().replicas.confirm is False:
            self.run("sound")
        return True

    def call(self, name: str, *arguments: Any) -> Call:
        """Return a script to be run here together with others elsewhere."""
        return Call(self._nowhere, name, arguments, self.address.prefix)

    def run(self, name: str, *arguments: Any, meanwhile: Meanwhile = None) -> Any:
        if meanwhile is not None:  # at once: what is below may ask twice
            meanwhile()
        try:
            return self._run(name, arguments)
        except StoreUnusable as error:
            if not may_be_damage(error) or not self.mending.mend():
                raise
        return self._run(name, arguments)

    def _run(self, name: str, arguments: tuple[Any, ...]) -> Any:
        prefix, keys = self.address.prefix, (self._nowhere,)
        return self._nodes.at(
            self._nowhere, lambda server: server.run_at(prefix, keys, name, *arguments)
        )

    def run_each(self, name: str, calls: Iterable[Sequence[Any]]) -> Iterator[Any]:
        return (self.run(name, *arguments) for arguments in calls)

    def ask(self, *command: Any) -> Any:
        try:
            return self._ask(command)
        except StoreUnusable as error:
            if not may_be_damage(error) or not self.mending.mend():
                raise
        return self._ask(command)

    def _ask(self, command: tuple[Any, ...]) -> Any:
        return self._nodes.at(self._nowhere, lambda server: server.ask(*command))

    def close(self) -> None:
        """Close nothing: the connections are those of the nodes."""


class ShardStore(RedisStore):
    """The store of one queue. Its ends may concern others: who knows them passes them on."""

    def __init__(self, shard: Shard, on_end: Callable[[], None]) -> None:
        super().__init__(shard)
        self._on_end = on_end

    def beat_alone(
        self, worker: Worker, number: int, nonce: str, reports: Sequence[Report]
    ) -> Beat:
        """Beat here alone: the registry shard has not heard of it."""
        return self._beat(worker, beats.pack_worker(worker, number, nonce, alone=True), reports)

    def _relay(self) -> None:
        self._on_end()
