"""Workers behind a server: it goes away, comes back, stands still, loses answers; there are two.

What is done to workers and keepers is in other modules, which run over HTTP too: see `conftest.py`.
"""

from __future__ import annotations

import os
import signal

import pytest

from stayer.http.token_places import TokensInStore
from stayer.http.tokens import Access
from stayer.service.control import workers as worker_control
from stayer.service.lease.forced_drop import drop_by_force
from stayer.service.lease.heartbeat import moment
from tests.contract.builders import new, submit
from tests.faults.fleet import until
from tests.faults.served_fleet import LossyProxy, ServedFleet
from tests.faults.test_chaos import Chaos, play

FLEET = ServedFleet


def test_a_task_outlives_its_worker_and_its_server(fleet: ServedFleet) -> None:
    worker = fleet.worker(lease=60)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.until_stamped("a")
    fleet.signal(worker, signal.SIGKILL)
    fleet.kill()
    before = len(fleet.read_stamps("a")[1])
    fleet.until_stamped("a", more_than=before + 10)

    fleet.worker(lease=60)  # before there is a server
    fleet.restart()
    until(lambda: "adopted" in [event.event for event in fleet.store.events("a")])
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert fleet.endings("a") == ["done"]
    assert list(fleet.read_stamps("a")) == [1]


def test_what_ends_while_the_server_is_away_is_recorded_once_with_its_log(
    fleet: ServedFleet,
) -> None:
    fleet.worker(lease=60)
    fleet.submit("a", "sh", "-c", f"seq 200000; while [ ! -e {fleet.folder}/a.stop ]; do sleep 0.01"
                 "; done; echo 42 > $STAYER_RESULT; echo said")  # fmt: skip
    fleet.until_state("a", "started")
    fleet.kill()
    fleet.finish("a")
    until((fleet.folder / "one" / "run" / "a.1" / "exit").exists)
    fleet.restart()

    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.result) == ("complete", 1, 42)
    assert fleet.endings("a") == ["done"]
    printed = b"".join(piece.data for piece in fleet.store.log("a", 1, 0, 10_000_000))
    assert printed == b"".join(b"%d\n" % n for n in range(1, 200001)) + b"said\n"


@pytest.mark.long
def test_a_server_that_is_away_for_leases_costs_only_time(fleet: ServedFleet) -> None:
    fleet.worker("one", lease=6.0)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    fleet.kill()
    until(lambda: fleet.is_fenced("a", "one"))
    gone = moment()
    before = len(fleet.read_stamps("a")[1])
    until(lambda: moment() - gone > 12.0)  # two more leases
    assert len(fleet.read_stamps("a")[1]) == before
    fleet.restart()
    fleet.until_stamped("a", more_than=before + 20)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert list(fleet.read_stamps("a")) == [1]


@pytest.mark.long
@pytest.mark.parametrize("stopped", ["worker", "server"])
def test_what_stands_still_past_the_lease_is_taken_by_another_and_never_overlaps(
    fleet: ServedFleet, stopped: str
) -> None:
    one = fleet.worker("one", lease=6.0)
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    first = fleet.server.process.pid
    fleet.urls["two"] = fleet.serve().url
    fleet.worker("two", lease=6.0)
    fleet.signal(one if stopped == "worker" else first, signal.SIGSTOP)
    fleet.until_stamped("a", attempt=2)
    os.kill(one if stopped == "worker" else first, signal.SIGCONT)
    before = len(fleet.read_stamps("a")[2])
    fleet.until_stamped("a", attempt=2, more_than=before + 50)
    until(lambda: not (fleet.folder / "one" / "run" / "a.1").exists())
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 2)
    assert fleet.endings("a") == ["lost", "done"]
    fleet.assert_no_overlap("a")


@pytest.mark.long
def test_a_healthy_task_runs_once_however_often_the_server_restarts(fleet: ServedFleet) -> None:
    fleet.worker("one", lease=8.0)
    fleet.worker("two", lease=8.0)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    for _ in range(5):
        fleet.kill()
        fleet.restart()
        before = len(fleet.read_stamps("a")[1])
        fleet.until_stamped("a", more_than=before + 200)
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    assert list(fleet.read_stamps("a")) == [1]


@pytest.mark.long
def test_answers_that_get_lost_run_nothing_twice(fleet: ServedFleet) -> None:
    proxy = LossyProxy(fleet.server.port)
    fleet.url = proxy.url
    fleet.worker("one", lease=20)
    fleet.worker("two", lease=20)
    runs = fleet.folder / "runs"
    ids = [f"t{n}" for n in range(30)]
    for id in ids:
        fleet.submit(id, "sh", "-c", f"echo {id} >> {runs}; sleep 0.05; echo 1 > $STAYER_RESULT")
    until(lambda: proxy.lost > 20)
    until(lambda: all(fleet.get(id).state == "complete" for id in ids))
    proxy.close()

    assert sorted(runs.read_text().split()) == sorted(ids)
    assert all(fleet.endings(id)[-1] == "done" for id in ids)
    assert all(fleet.endings(id).count("done") == 1 for id in ids)


def test_a_server_that_answers_each_beat_too_late_costs_only_time(fleet: ServedFleet) -> None:
    proxy = LossyProxy(fleet.server.port, delay_s=1.0, loses=False)  # an eighth is 0.75 s
    fleet.url = proxy.url
    fleet.worker("one", lease=6)
    fleet.stamper("a")
    fleet.until_stamped("a", more_than=0)
    began = moment()
    until(lambda: moment() - began > 18.0 or fleet.is_fenced("a", "one"))
    assert not fleet.is_fenced("a", "one")
    fleet.finish("a")
    task = fleet.until_ended("a")
    assert (task.state, task.attempt) == ("complete", 1)
    proxy.close()


class ServerChaos(Chaos):
    """Does harm to servers too: kills them, stops them, and starts them again."""

    def __init__(self, fleet: ServedFleet, seed: int) -> None:
        super().__init__(fleet, seed)
        self._fleet = fleet

    def harm(self) -> None:
        at = self.random.randrange(len(self._fleet.servers))
        server = self._fleet.servers[at].process.pid
        match self.random.randrange(6):
            case 0:
                self._fleet.kill(at)
                self._go_on()  # one that was stopped in the middle of a write has the store locked
                self._fleet.restart(at)
            case 1:
                self._stop(server)
            case _:
                super().harm()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_harm_to_servers_and_workers_loses_nothing_and_doubles_nothing(
    fleet: ServedFleet, seed: int
) -> None:
    """Three nodes: one asks a server, one another, one the first by a line that loses answers."""
    proxy = LossyProxy(fleet.server.port, delay_s=0.05)
    fleet.urls = {"two": fleet.serve().url, "three": proxy.url}
    play(fleet, ServerChaos(fleet, seed), least=10)
    proxy.close()


def test_a_worker_behind_a_server_is_changed_as_far_as_its_token_goes_and_stopped(
    fleet: ServedFleet,
) -> None:
    tokens = Access(TokensInStore(fleet.store))
    fleet.token = tokens.add("two", "work", ("default", "b"))
    fleet.worker()
    fleet.stamper("a")
    fleet.until_stamped("a")
    [known] = fleet.store.workers()
    submit(fleet.store, new("there", "b", command=("true",)), new("not", "c", command=("true",)))
    worker_control.set_worker(fleet.store, known.id, add_queues=["c", "b"], slots=2)

    assert fleet.until_ended("there").state == "complete"
    until(lambda: fleet.store.workers()[0].queues == ("default", "b"), "for it to say so")
    assert (fleet.store.workers()[0].id, fleet.store.workers()[0].slots) == (known.id, 2)
    assert fleet.get("not").state == "pending"

    assert drop_by_force(fleet.store, known.id, 0.0) == (1, True)
    assert (fleet.get("a").state, fleet.endings("a")) == ("pending", ["interrupted"])
    assert fleet.keepers() == []
