"""Workers behind a server: it goes away, comes back, stands still, loses answers; there are two."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from stayer.http.tokens import Access
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until
from tests.http.serving import Process


class ServedFleet(Fleet):
    """Workers that know a URL and a token, and nothing of the database."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.database = self.url
        self.token = Access(folder / "access.json").add("node", "work", ("default",))
        self.servers: list[Process] = []
        self.server = self.serve()
        self.url = self.server.url

    def serve(self, port: int = 0) -> Process:
        """Start a server, perhaps in the place of one that is gone."""
        started = Process(self.folder, self.database, port=port)
        self.servers.append(started)
        return started

    def restart(self) -> None:
        """Let the first server be there again, where it was."""
        self.server = self.serve(self.server.port)

    def kill(self) -> None:
        """End the first server without a word."""
        self.server.process.kill()
        self.server.process.wait()
        assert self.server.process.stdout is not None
        self.server.process.stdout.close()

    def _environment(self) -> dict[str, str]:
        return {**super()._environment(), "STAYER_TOKEN": self.token}

    def close(self) -> None:
        super().close()
        for server in self.servers:
            if server.process.poll() is None:
                os.kill(server.process.pid, signal.SIGCONT)
                server.stop()

    def is_fenced(self, id: str, node: str) -> bool:
        """Whether a keeper has frozen the first attempt."""
        running = self.folder / node / "run" / f"{id}.1" / "running"
        with suppress(OSError):
            return '"fenced"' in running.read_text()
        return False


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[ServedFleet]:
    fleet = ServedFleet(tmp_path)
    yield fleet
    fleet.close()


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
    second = fleet.serve()
    fleet.url = second.url
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
def test_what_is_lost_with_its_node_goes_on_from_its_checkpoint(fleet: ServedFleet) -> None:
    script = (
        "import os, sys\n"
        "saved = os.environ['STAYER_CHECKPOINT']\n"
        "if os.path.exists(saved):\n"
        "    print('from', open(saved).read()); sys.exit()\n"
        "open(saved + '.new', 'w').write('half'); os.rename(saved + '.new', saved)\n"
        "import time; time.sleep(1000)\n"
    )
    worker = fleet.worker("one", lease=3.0)
    fleet.submit("a", fleet.python, "-c", script)
    until(lambda: fleet.store.checkpoint("a"))
    fleet.signal(worker, signal.SIGSTOP)
    for pid in fleet.keepers("one"):
        os.kill(pid, signal.SIGKILL)
    fleet.signal(worker, signal.SIGKILL)
    until(lambda: not fleet.strays())

    fleet.worker("two", lease=3.0)
    task = fleet.until_ended("a")
    assert (task.state, task.attempt, task.failures) == ("complete", 2, 0)
    assert fleet.endings("a") == ["lost", "done"]
    assert b"from half" in b"".join(piece.data for piece in fleet.store.log("a", 2, 0, 1000))


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
def test_a_worker_that_is_told_to_stop_hands_its_task_back(fleet: ServedFleet) -> None:
    worker = fleet.worker("one", lease=20)
    fleet.stamper("a")
    fleet.until_state("a", "started")
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert fleet.get("a").state == "pending"
    assert fleet.endings("a") == ["interrupted"]
    assert fleet.store.workers() == []
    fleet.worker("two", lease=20)
    fleet.until_stamped("a", attempt=2)
    fleet.finish("a")
    fleet.until_ended("a")
    fleet.assert_no_overlap("a")


class LossyProxy:
    """Passes requests on, and loses the answers to every third of them."""

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.lost = 0
        self.lossy = True
        self._count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._server_port)) as server:
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()
            with suppress(OSError):
                while answer := server.recv(65536):
                    self._count += 1
                    if self.lossy and self._count % 3 == 0:
                        self.lost += 1
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    client.sendall(answer)

    @staticmethod
    def _pump(client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while request := client.recv(65536):
                server.sendall(request)
        with suppress(OSError):
            server.shutdown(socket.SHUT_WR)


@pytest.mark.long
def test_answers_that_get_lost_run_nothing_twice(fleet: ServedFleet) -> None:
    proxy = LossyProxy(fleet.server.port)
    fleet.url = f"http://127.0.0.1:{proxy.port}"
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
