"""What must hold when clients are killed at any moment."""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection

from stayer.core.happenings import Done
from stayer.store import Store
from tests.contract import actors
from tests.contract.builders import (
    PATIENCE,
    apply,
    beat,
    check_counts,
    fill,
    get,
    ids,
    register,
    take_one,
)
from tests.processes import PROCESSES

ROUNDS = 8


def hear(connection: Connection, number: int) -> list[tuple[str, list[str]]]:
    """So many words of a process, or, with 0, all that it could still say."""
    words: list[tuple[str, list[str]]] = []
    try:
        while not number or len(words) < number:
            assert connection.poll(PATIENCE), "it says nothing more"
            words.append(connection.recv())
    except EOFError:
        assert not number, "it died by itself"
    return words


def test_a_killed_client_takes_nothing_with_it(timely: Store, url: str) -> None:
    register(timely, "survivor")
    for round in range(ROUNDS):
        # Given a client in the midst of it
        name = f"victim {round}"
        here, there = PROCESSES.Pipe()
        victim = PROCESSES.Process(
            target=actors.live_dangerously, args=(there, url, name), daemon=True
        )
        victim.start()
        there.close()
        words = hear(here, random.randint(1, 12))

        # When it is killed, whatever it does just then
        time.sleep(random.random() / 500)
        victim.kill()
        words += hear(here, 0)
        victim.join()
        here.close()

        # Then all that it was told is so
        for word, names in words:
            for id in names:
                task = get(timely, id)
                if word == "finished":
                    assert (task.state, task.result) == ("complete", "end")
                elif word == "reserved":
                    assert (task.attempt, task.worker) == (1, name)
                    assert task.state in ("reserved", "complete")
        for task in timely.holdings(name):
            assert (task.state, task.worker, task.attempt) == ("reserved", name, 1)

        # And everyone else goes on
        check_counts(timely)
        beat(timely, "survivor", round + 2)
        [own] = fill(timely, 1)
        assert ids([apply(timely, take_one(timely, "survivor"), Done())]) == [own]
