"""Random harm to workers, nurseries, keepers and tasks: nothing lost, doubled or finished twice."""

from __future__ import annotations

import os
import random
import signal
from contextlib import suppress

import pytest
from msgspec.structs import replace

from stayer.core.errors import StoreUnreachable
from stayer.core.model import NewTask, Policy
from stayer.core.submit.checks import new_task
from tests.faults.fleet import Fleet, until

NODES = ("one", "two", "three")
TASK = """
import os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
attempt = os.environ["STAYER_ATTEMPT"]
for _ in range(int(sys.argv[2])):
    moment = time.clock_gettime(time.CLOCK_BOOTTIME)
    os.write(file, f"{attempt} {moment:.6f}\\n".encode())
    time.sleep(0.005)
"""


ESCAPING = f"""
import os, subprocess, sys
# All the work is done by a child that has left the group, and carries nothing that it could be
# found by.
kept = {{"STAYER_ATTEMPT": os.environ["STAYER_ATTEMPT"]}}
work = subprocess.Popen([sys.executable, "-c", {TASK!r}, *sys.argv[1:]], env=kept,
                        start_new_session=True)
sys.exit(work.wait())
"""


class Chaos:
    """Does harm, and puts workers back."""

    def __init__(self, fleet: Fleet, seed: int, *options: str, nurseries: bool = False) -> None:
        self.fleet = fleet
        self.random = random.Random(seed)
        self.options = options
        self.spared = 0 if nurseries else 1
        self.workers = {name: fleet.worker(name, *options) for name in NODES}
        self.stopped: set[int] = set()

    def harm(self) -> None:
        """One deed."""
        name = self.random.choice(NODES)
        worker = self.workers[name]
        match self.random.randrange(6):
            case 0:
                self.fleet.signal(worker, signal.SIGKILL)
                self.stopped.discard(worker)
                self.workers[name] = self.fleet.worker(name, *self.options)
            case 1:
                self._stop(worker)
            case 2:
                self._go_on()
            case 3:
                self._one_of(self.fleet.keepers(name)[self.spared :], signal.SIGKILL)
            case 4:
                self._one_of(self.fleet.keepers(name)[self.spared :], signal.SIGSTOP)
            case _:
                self._one_of(self.fleet.strays(), signal.SIGKILL)

    def submit(self, new: NewTask) -> None:
        """A worker that was stopped in the middle of a write has the store locked: wake it then."""
        while True:
            try:
                self.fleet.store.submit([new])
                return
            except StoreUnreachable:
                self._go_on()

    def end(self) -> None:
        """Let everybody go on."""
        self._go_on()

    def _stop(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self.stopped.add(pid)

    def _go_on(self) -> None:
        for pid in self.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.stopped.clear()

    def _one_of(self, pids: list[int], number: int) -> None:
        if pids:
            pid = self.random.choice(pids)
            with suppress(ProcessLookupError):
                os.kill(pid, number)
                if number == signal.SIGSTOP:
                    self.stopped.add(pid)


def wanted(seed: int) -> int:
    """How many handovers a long run has: one of each kind has many."""
    return 60 if seed else 200


def handovers(fleet: Fleet, ids: list[str]) -> int:
    return sum(len(fleet.read_stamps(id)) - 1 for id in ids if fleet.read_stamps(id))


def play(fleet: Fleet, chaos: Chaos, least: int, task: str = TASK) -> None:
    ids: list[str] = []
    try:
        while handovers(fleet, ids) < least:
            busy = sum(fleet.get(id).state not in ("complete", "failed") for id in ids)
            for _ in range(6 - busy):
                id = f"task-{len(ids)}"
                command = [fleet.python, "-c", task, str(fleet.stamps(id)), "150"]
                new = new_task(queue="default", id=id, command=command)
                chaos.submit(replace(new, policy=Policy(retries=1000, losses=1000)))
                ids.append(id)
            chaos.harm()
            before = fleet.store.last_event()
            fleet.store.watch(before, chaos.random.random(), 1)
        chaos.end()
        for id in ids:
            fleet.until_state(id, "complete")
    finally:
        chaos.end()
    for id in ids:
        fleet.assert_no_overlap(id)
        assert fleet.endings(id).count("done") == 1
        assert fleet.endings(id)[-1] == "done"
    until(lambda: not fleet.strays())


def test_chaos_loses_nothing_and_doubles_nothing(fleet: Fleet) -> None:
    play(fleet, Chaos(fleet, random.randrange(2**32)), least=20)


def test_in_a_pid_namespace_even_what_escapes_is_never_doubled(fleet: Fleet) -> None:
    """With nurseries harmed too: the kernel ends all of a task with its keeper."""
    chaos = Chaos(fleet, random.randrange(2**32), "--isolate", "pidns", nurseries=True)
    play(fleet, chaos, least=10, task=ESCAPING)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_long_chaos_loses_nothing_and_doubles_nothing(fleet: Fleet, seed: int) -> None:
    play(fleet, Chaos(fleet, seed), wanted(seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_long_chaos_in_pid_namespaces(fleet: Fleet, seed: int) -> None:
    chaos = Chaos(fleet, seed, "--isolate", "pidns", nurseries=True)
    play(fleet, chaos, wanted(seed), task=ESCAPING)
