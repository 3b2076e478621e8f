"""What other processes do in the tests with several of them.

An actor is a function of this module. It opens a store of its own, says `ready()`, which lets all
actors of the test go at the same time, and returns what it saw.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from threading import Barrier
from typing import Any, TypeAlias

from stayer.core.errors import LeaseLost, Refused
from stayer.core.happenings import Ask, Done, Fail, Happening, Interrupt
from stayer.core.lifecycle import decide
from stayer.core.model import RUNNING, Change, Fault, Filter, Task
from stayer.core.worker_model import EVERYTHING
from stayer.service.control import tasks as control
from stayer.service.control import workers as worker_control
from stayer.store import Store
from stayer.stores import open_store
from tests.contract.builders import PATIENCE, beat, commit, get, ids, new, register, take
from tests.processes import PROCESSES

Ready: TypeAlias = Callable[[], object]


def together(actor: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run the actor once for each of the arguments, all at once, each in its own process."""
    return all_of([(actor, each) for each in arguments])


def all_of(parts: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]]) -> list[Any]:
    """Run each actor with its arguments, all at once, each in its own process."""
    barrier = PROCESSES.Barrier(len(parts))
    running = []
    for actor, arguments in parts:
        here, there = PROCESSES.Pipe()
        process = PROCESSES.Process(
            target=_run, args=(there, barrier, actor, arguments), daemon=True
        )
        process.start()
        there.close()
        running.append((process, here))
    answers = []
    for process, connection in running:
        answers.append(_answer(connection))
        process.join()
    failures = [answer for well, answer in answers if not well]
    # A broken barrier is of the others' making: tell what broke it.
    failures.sort(key=lambda failure: "BrokenBarrierError" in failure)
    assert not failures, failures[0]
    return [answer for _, answer in answers]


def _run(
    connection: Connection, barrier: Barrier, actor: Callable[..., Any], arguments: tuple[Any, ...]
) -> None:
    try:
        answer = (True, actor(partial(barrier.wait, PATIENCE), *arguments))
    except BaseException:
        answer = (False, traceback.format_exc())
        barrier.abort()
    connection.send(answer)


def _answer(connection: Connection) -> tuple[bool, Any]:
    with connection:
        try:
            well, answer = connection.recv()
        except EOFError:
            return False, "the process died without a word"
    return well, answer


@contextmanager
def opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


# Life


def set_up_and_submit(ready: Ready, url: str, id: str) -> bool:
    with opened(url) as store:
        ready()
        store.setup()
        return store.submit([new(id)])[0].fresh


def fork_and_submit(ready: Ready, url: str, number: int) -> list[int]:
    """Fork three times from a process that has used the store; parent and children all submit."""
    with opened(url) as store:
        store.waiter(None, ["forked"]).close()
        store.queues()
        ready()
        children = []
        for child in range(3):
            pid = os.fork()
            if pid == 0:
                os._exit(_submit_some(store, f"child {child}", number))
            children.append(pid)
        _submit_some(store, "parent", number)
        return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]


def _submit_some(store: Store, name: str, number: int) -> int:
    try:
        for each in range(number):
            assert store.submit([new(f"{name} {each}", queue="forked")])[0].fresh
        store.close()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


# Submitting and reserving


def submit_all(ready: Ready, url: str, names: list[str], size: int) -> list[str]:
    """Submit these ids in batches; the answer is which were fresh."""
    with opened(url) as store:
        ready()
        fresh = []
        for start in range(0, len(names), size):
            answers = store.submit([new(id) for id in names[start : start + size]])
            fresh += [answer.task.id for answer in answers if answer.fresh]
        return fresh


def reserve_all(ready: Ready, url: str, worker: str, size: int) -> list[str]:
    """Reserve until there is nothing left; the answer is what was got."""
    with opened(url) as store:
        register(store, worker)
        ready()
        got: list[str] = []
        while tasks := take(store, worker, limit=size):
            got += ids(tasks)
        return got


def work_within_a_limit(ready: Ready, url: str, worker: str, total: int) -> list[int]:
    """Reserve and finish until all is done; the answer is how many ran after each reserve."""
    with opened(url) as store:
        register(store, worker)
        ready()
        seen = []
        while True:
            tasks = take(store, worker, limit=2)
            [queue] = store.queues(["q"])
            seen.append(sum(queue.counts.get(state, 0) for state in RUNNING))
            if not tasks and queue.counts.get("complete") == total:
                return seen
            store.commit([decide(task, Done()) for task in tasks])


def work_within_key_limits(ready: Ready, url: str, worker: str, total: int, limit: int) -> None:
    """The same where keys are limited; at no moment does more of one key run."""
    with opened(url) as store:
        register(store, worker)
        ready()
        while True:
            tasks = take(store, worker, limit=4)
            [queue] = store.queues(["q"])
            running = store.find(Filter(states=RUNNING), None, 100).tasks
            assert max(Counter(task.key for task in running).values(), default=0) <= limit
            if not tasks and queue.counts.get("complete") == total:
                return
            store.commit([decide(task, Done()) for task in tasks])


def submit_unique(ready: Ready, url: str, name: str, number: int) -> list[str]:
    """Submit so many tasks, each with a word that others want, too; which words it got."""
    with opened(url) as store:
        ready()
        wanted = [new(f"{name} {each}", unique=f"u{each}") for each in range(number)]
        answers = [store.submit([each])[0] for each in wanted]
        return [answer.task.unique or "" for answer in answers if answer.fresh]


def turn_until_done(ready: Ready, url: str, worker: str) -> list[str]:
    """Work off a queue by turns; the answer is what was done."""
    with opened(url) as store:
        register(store, worker)
        ready()
        done: list[str] = []
        held: Sequence[Task] = take(store, worker, limit=2)
        while held:
            changes = [decide(task, Done(worker)) for task in held]
            done += ids(held)
            applied, held = store.turn(worker, changes, ["q"], 2, EVERYTHING)
            assert all(applied)
        return done


def promote_all(ready: Ready, url: str) -> None:
    with opened(url) as store:
        ready()
        while store.promote(3) is not None:
            pass


# Leases


def beat_all(ready: Ready, url: str, workers: list[str]) -> list[str]:
    """Beat once for each of these workers; the answer is who lost its lease."""
    with opened(url) as store:
        ready()
        lost = []
        for worker in workers:
            try:
                beat(store, worker, 2)
            except LeaseLost:
                lost.append(worker)
        return lost


def declare_all_lost(
    ready: Ready, url: str, judge: str, workers: list[str]
) -> dict[str, list[str]]:
    """Declare these workers lost one by one; the answer is whose tasks were given."""
    with opened(url) as store:
        ready()
        given: dict[str, list[str]] = {}
        for worker in workers:
            for task in store.declare_lost(judge, {worker: 1}):
                given.setdefault(task.worker or "", []).append(task.id)
        return given


def declare_lost_and_return(ready: Ready, url: str, judge: str, silent: dict[str, int]) -> int:
    """Declare them lost until nothing is held; the answer is how many tasks this one returned."""
    with opened(url) as store:
        ready()
        returned = 0
        while tasks := store.declare_lost(judge, silent):
            returned += worker_control.return_lost_tasks(store, tasks)
        return returned


def beat_as_a_twin(ready: Ready, url: str, worker: str, nonce: str, until: int) -> int:
    """Beat until refused; the answer is the last number that went through."""
    with opened(url) as store:
        ready()
        for number in range(2, until + 1):
            try:
                beat(store, worker, number, nonce=f"{nonce} {number}")
            except LeaseLost:
                return number - 1
        return until


def reserve_while_declared_lost(ready: Ready, url: str, workers: list[str]) -> dict[str, list[str]]:
    """Reserve once for each of these workers; the answer is who got what."""
    with opened(url) as store:
        ready()
        got: dict[str, list[str]] = {}
        for worker in workers:
            try:
                got[worker] = ids(take(store, worker, limit=2))
            except LeaseLost:
                got[worker] = []
        return got


# Orders and outcomes


def settle_all(ready: Ready, url: str, names: list[str], how: str) -> list[str]:
    """Bring this outcome of each task, as it was before anybody asked anything."""
    outcomes: dict[str, Happening] = {
        "done": Done("end"),
        "error": Fail(Fault("Boom")),
        "interrupted": Interrupt(),
    }
    with opened(url) as store:
        tasks = [get(store, name) for name in names]
        ready()
        return [control.settle(store, task, outcomes[how]).state for task in tasks]


def cancel_all(ready: Ready, url: str, names: list[str]) -> list[str]:
    """Cancel each task; the answer is its state as it was then, or that it was refused."""
    with opened(url) as store:
        ready()
        states: list[str] = []
        for name in names:
            try:
                states.append(control.cancel(store, name).state)
            except Refused:
                states.append("refused")
        return states


def commit_all(ready: Ready, url: str, changes: list[Change]) -> list[str | None]:
    """Commit one by one; the answer is the states that came of it."""
    with opened(url) as store:
        ready()
        answers = [store.commit([change])[0] for change in changes]
        return [task.state if task else None for task in answers]


def ask_all(ready: Ready, url: str, id: str, number: int) -> None:
    """Ask so many things of one task."""
    with opened(url) as store:
        ready()
        for _ in range(number):
            while commit(store, get(store, id), Ask("signal")) is None:
                pass


# Waiting


def follow(ready: Ready, url: str, number: int) -> list[int]:
    """Watch until so many events came; the answer is their numbers."""
    with opened(url) as store:
        ready()
        numbers: list[int] = []
        while len(numbers) < number:
            events = store.watch(numbers[-1] if numbers else 0, PATIENCE, 7)
            if not events:
                break
            numbers += [event.number for event in events]
        return numbers


def work_when_woken(ready: Ready, url: str, worker: str, number: int) -> list[str]:
    """Wait, reserve, finish, until so many tasks are done. Sleeping through one ends it early."""
    with opened(url) as store:
        register(store, worker)
        waiter = store.waiter(worker, ["q"])
        ready()
        done: list[str] = []
        while len(done) < number:
            if tasks := take(store, worker):
                store.commit([decide(task, Done()) for task in tasks])
                done += ids(tasks)
            elif not waiter.wait(PATIENCE):
                break
        waiter.close()
        return done


def submit_one_by_one(ready: Ready, url: str, number: int) -> None:
    """Submit a task, wait until it is done, submit the next."""
    with opened(url) as store:
        ready()
        for each in range(number):
            since = store.last_event()
            store.submit([new(f"t{each}")])
            while get(store, f"t{each}").state != "complete":
                events = store.watch(since, PATIENCE, 100)
                assert events, f"t{each} was not done"
                since = events[-1].number


# Dying


def live_dangerously(connection: Connection, url: str, name: str) -> None:
    """Submit, reserve, finish, hold; say so after each step, until killed."""
    store = open_store(url)
    register(store, name)
    for number in range(1_000_000):
        batch = [f"{name} {number} {each}" for each in range(3)]
        store.submit([new(id, queue=name) for id in batch])
        connection.send(("submitted", batch))
        tasks = take(store, name, name, limit=2)
        connection.send(("reserved", ids(tasks)))
        ended = store.commit([decide(task, Done("end")) for task in tasks])
        connection.send(("finished", [task.id for task in ended if task is not None]))
        beat(store, name, number + 2)


def flow_dangerously(connection: Connection, url: str, name: str) -> None:
    """Submit and work off one small flow after the other, until killed."""
    store = open_store(url)
    register(store, name)
    for number in range(1_000_000):
        root = f"{name} {number}"
        many = [f"{root} {each}" for each in range(6)]
        tied = [new(id, queue=name, after=(root,)) for id in many]
        join = new(f"{root} join", queue=name, after=tuple(many))
        store.submit([new(root, queue=name), *tied, join])
        connection.send(("submitted", [root]))
        while tasks := take(store, name, name, limit=2):
            store.commit([decide(task, Done()) for task in tasks])
            connection.send(("finished", ids(tasks)))
        beat(store, name, number + 2)


# Counting


def sample_together(ready: Ready, url: str) -> None:
    with opened(url) as store:
        ready()
        for _ in range(20):
            store.sample()


def finish_one_by_one(ready: Ready, url: str, worker: str) -> int:
    """Take and end tasks until there are no more; how many that was."""
    with opened(url) as store:
        register(store, worker)
        ready()
        ended = 0
        while tasks := take(store, worker):
            store.commit([decide(task, Done()) for task in tasks])
            ended += 1
        return ended
