"""A server that throws away whatever it likes, under load: tasks get lost, and nothing stops."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

from stayer.core.errors import LeaseLost
from stayer.core.happenings import Done, Start
from stayer.core.lifecycle import decide
from stayer.core.model import FINISHED, Filter, Task
from stayer.core.worker_model import EVERYTHING
from stayer.stores import open_store
from stayer.stores.redis import RedisStore
from tests.contract.builders import Clock, beat, check_counts, fill, new, register, worker
from tests.redis.losing import sweep
from tests.servers.redis import RedisServer

ROUNDS = 60
ROOM = 1_500_000


class Crowd:
    """Somebody who submits, and workers that begin anew whenever they are forgotten."""

    def __init__(self, store: RedisStore, clock: Clock) -> None:
        self.store, self.clock = store, clock
        self.random = random.Random(7)
        self.numbers = itertools.count(1)
        self.running: list[Task] = []
        self.begin()

    def begin(self) -> None:
        self.me = f"w{next(self.numbers)}"
        self.beats = 1
        register(self.store, self.me)

    def submit(self) -> None:
        for queue, fields in (
            ("q", {}),
            ("lined", {"key": f"k{self.random.randrange(5)}"}),
            ("later", {"delay": 2.0}),
        ):
            fill(self.store, 20, queue, parameters="x" * self.random.choice((10, 3000)), **fields)
        programs = [new(queue="many", command=(f"p{at}",), priority=at % 3) for at in range(40)]
        self.store.submit(programs)
        first, *rest = [new(queue="tied") for _ in range(5)]
        self.store.submit([first, *(new(queue="tied", after=(first.id,)) for _ in rest)])

    def work(self) -> None:
        queues = ["q", "lined", "later", "many", "tied"]
        self.random.shuffle(queues)
        done = [decide(task, Done("y" * self.random.choice((1, 3000)))) for task in self.running]
        self.running = []
        try:
            _, given = self.store.turn(self.me, done, queues, 100, EVERYTHING)
            started = self.store.commit([decide(task, Start(pid=1)) for task in given])
            self.running = [task for task in started if task is not None]
            self.beats += 1
            beat(self.store, worker(self.me), self.beats)
        except LeaseLost:
            self.begin()

    def look(self) -> None:
        self.store.find(Filter(), None, 100)
        self.store.queues()
        self.store.workers()
        self.store.flows(None, 10)
        self.store.peek("many", 10)
        self.store.purge(None, FINISHED, self.clock() - 5, 50)
        self.store.forget({"log": 1.0, "result": 1.0}, 50)


def evicted(store: RedisStore) -> int:
    info = store._server.ask("INFO", "stats").decode()
    return int(info.partition("evicted_keys:")[2].split()[0])


def test_a_queue_goes_on_whatever_is_evicted(own_server: Callable[..., RedisServer]) -> None:
    server = own_server("--maxmemory-policy", "allkeys-random")
    clock = Clock()
    store = open_store(server.url(), clock=clock)
    assert isinstance(store, RedisStore)
    store.setup()
    store.set_queue("lined", key_limit=2)
    crowd = Crowd(store, clock)
    crowd.submit()  # the server keeps scripts, and buffers, which it can't evict
    crowd.work()
    crowd.look()
    used = int(store._server.ask("INFO", "memory").decode().partition("used_memory:")[2].split()[0])
    store._server.ask("CONFIG", "SET", "maxmemory", used + ROOM)
    for number in range(ROUNDS):
        clock.advance(1)
        crowd.submit()
        crowd.work()
        store.promote(100)
        if number % 10 == 0:
            crowd.look()
            clock.advance(60)
            store.sample()
    assert evicted(store) > 500

    store._server.ask("CONFIG", "SET", "maxmemory", 0)
    crowd.begin()
    fresh = {queue: fill(store, 3, queue) for queue in ("q", "lined", "later", "many", "tied")}
    given: set[str] = set()
    is_over = False
    while not is_over:
        crowd.work()
        store.promote(100)
        given |= {task.id for task in crowd.running}
        is_over = not crowd.running
    assert given >= {id for names in fresh.values() for id in names}
    sweep(store, clock)
    sweep(store, clock)
    check_counts(store)
    store.close()
