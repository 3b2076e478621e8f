"""The worker's side of a pool: started, spoken to, killed, and proven to be gone."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path

from stayer.keeper.kernel import awake
from stayer.worker import safe_files
from stayer.worker.load_user_code import inherited_environment
from stayer.worker.threads import protocol
from stayer.worker.threads.in_flight import read_in_flight
from stayer.worker.threads.main import BEGUN, LOCK
from stayer.worker.wakeup import Bell

_EXCUSE_FILE = "excuse"
_POOL_COMMAND = (sys.executable, "-P", "-m", "stayer.worker.threads")


class PoolProcess:
    """A guard and its pool, for as long as they live."""

    def __init__(
        self,
        setup: protocol.Setup,
        lease: Path,
        environment: dict[str, str],
        log: str | None,
        bell: Bell,
    ) -> None:
        self.news: deque[protocol.News] = deque()
        self._pings, self._pongs = 0, 0
        self._asked_at = 0.0
        self._ready_at: float | None = None
        self._begin_confined(setup.confined)
        self._bell = bell
        self._begun_file = Path(setup.state) / BEGUN
        self._link, theirs = protocol.pair()
        self._unsent: deque[protocol.Message] = deque([setup])
        self._sending = threading.Lock()
        # The pool's output is the worker's: a task's own lines go another way.
        output = open(log, "ab") if log else None  # noqa: SIM115
        arguments = (str(theirs), str(lease), str(setup.lease), str(os.getpid()))
        try:
            self._guard = subprocess.Popen(
                [*_POOL_COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs],
                start_new_session=True,  # the terminal's Ctrl-C is for the worker alone
                env={**inherited_environment(), **environment},
            )
        finally:
            os.close(theirs)
            if output is not None:
                output.close()
        self._ending = os.pidfd_open(self._guard.pid)
        bell.ring_when(self._ending)
        threading.Thread(target=self._listen, name="pool", daemon=True).start()
        self.pass_on()

    def _begin_confined(self, queues: tuple[str, ...]) -> None:
        self.queues = frozenset(queues)
        """In no other queues does it run anything."""
        self._confined_to = queues
        self._confinement = 0
        self._confining = threading.Lock()

    def send(self, message: protocol.Message) -> None:
        """Tell the pool, in time."""
        self._unsent.append(message)
        self.pass_on()

    def confine(self, queues: tuple[str, ...]) -> None:
        """Let it begin nothing of other queues; `queues` tells when nothing of others runs."""
        with self._confining:
            if queues == self._confined_to:
                return
            self._confined_to = queues
            self._confinement += 1
            self.queues |= set(queues)
        self.send(protocol.Confine(self._confinement, queues))

    def ask_for_answer(self, now: float) -> None:
        """Ask whether its threads can run, unless the last answer is still to come."""
        if self._pings == self._pongs:
            self._pings, self._asked_at = self._pings + 1, now
            self.send(protocol.Ping(self._pings))

    def silent_for(self, now: float) -> float:
        """Return how long it has not answered, in seconds awake. Before it says that it is ready,
        it is loading its app: that takes what it takes.
        """
        if self._ready_at is None or self._pings == self._pongs:
            return 0.0
        return now - max(self._asked_at, self._ready_at)

    def extend_answer_deadline(self, now: float) -> None:
        """Count the time to answer from now: it can't have answered before."""
        self._asked_at = max(self._asked_at, now)

    def at_work_on(self) -> set[tuple[str, int]]:
        """Return which tasks have begun there and not ended: ids and attempts."""
        return read_in_flight(self._begun_file)

    def pass_on(self) -> None:
        """Send what it can take without making us wait: a task may keep it from listening."""
        with self._sending, suppress(OSError):
            while self._unsent and select.select([], [self._link.descriptor], [], 0)[1]:
                self._link.send(self._unsent[0])
                self._unsent.popleft()

    def exit_code(self) -> int | None:
        """Return the exit code of the pool, 128 + N if a signal ended it, -N if one
        ended its guard, else None.
        """
        return self._guard.poll()

    def kill(self) -> None:
        """Both, at once: the pool dies with its guard."""
        self._guard.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close what belongs to a pool that has ended."""
        self._guard.wait()
        self._link.close()
        self._bell.forget(self._ending)
        os.close(self._ending)

    def _listen(self) -> None:
        while (message := self._link.receive()) is not None:
            if isinstance(message, protocol.News):
                self.news.append(message)
                if message.urgent:
                    self._bell.ring()
            elif isinstance(message, protocol.ConfineDone):
                self._on_confined(message)
            elif isinstance(message, protocol.Pong):
                self._ready_at = self._ready_at or awake()
                self._pongs = max(self._pongs, message.number)

    def _on_confined(self, message: protocol.ConfineDone) -> None:
        with self._confining:
            if message.number == self._confinement:  # the answer to what was asked last
                self.queues = frozenset(self._confined_to)


def is_gone(state: Path) -> bool:
    """Return whether no pool of this state directory lives, whoever started it."""
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)


def read_begun(state: Path) -> set[tuple[str, int]]:
    """Return what the last pool was at when it went."""
    return read_in_flight(state / BEGUN)


def forget_begun(state: Path) -> None:
    """Forget what the last pool was at: all of that is settled."""
    for name in (BEGUN, _EXCUSE_FILE):
        (state / name).unlink(missing_ok=True)


def write_excuse(state: Path, why: str) -> None:
    """Leave word for the next worker, if there is room for it: what the last pool held is not to
    blame for its end.
    """
    with suppress(OSError):
        safe_files.write(state / _EXCUSE_FILE, why.encode())


def explain_end(state: Path) -> tuple[str, bool]:
    """Say how the last pool ended, as far as is known, and whether what it ran may be to blame."""
    try:
        return (state / _EXCUSE_FILE).read_text(), False
    except OSError:
        return "its worker died", True
