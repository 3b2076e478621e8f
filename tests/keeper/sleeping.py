"""A machine that sleeps when a test wants it, and only as far as keepers can tell.

No test can suspend the machine it runs on. So keepers run from a copy of their code whose clocks
are a test's: `moment` is ahead of the kernel's by what the machine "slept", `awake` is that of the
kernel, and the wall clock is where the test puts it. What the kernel would send at the end of a
sleep, the alarms that came due meanwhile, the copy (or the test) sends; everything else is real.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from pathlib import Path

from stayer.keeper.kernel import moment as real_moment
from tests.keeper.harness import SOURCE, Attempt, Node

POINTS = ("stop", "proof", "check", "go")
"""Where a keeper can fall asleep: after it has stopped the task, after that is proven, after it has
found the lease good, after it has let the task go on."""

_CLOCKS = '''

_FOLDER = {folder!r}
_real_moment, _RealAlarm = moment, Alarm


def _number(name):
    return float(contents(os.path.join(_FOLDER, name)) or 0)


def _replace(name, text):
    path = os.path.join(_FOLDER, name)
    descriptor = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    os.rename(path + ".new", path)


def moment():
    return _real_moment() + _number("slept")


def wall():
    return _number("wall")


class Alarm(_RealAlarm):
    def set(self, wake, go_on=None):
        _replace("alarm-%d" % os.getpid(), "%r %r" % (wake or 0.0, go_on or 0.0))
        ahead = _number("slept")
        super().set(wake and wake - ahead, go_on and go_on - ahead)


def ring():
    """What the kernel does when the machine wakes up."""
    text = contents(os.path.join(_FOLDER, "alarm-%d" % os.getpid())) or b"0 0"
    for due, number in zip(map(float, text.split()), Alarm.SIGNALS):
        if 0 < due <= moment():
            os.kill(os.getpid(), number)


def nap(point):
    """Fall asleep here, if the test wants it: once."""
    path = os.path.join(_FOLDER, "nap-" + point)
    seconds = contents(path)
    if seconds:
        os.unlink(path)
        _replace("slept", repr(_number("slept") + float(seconds)))
        ring()
'''

_TREE = """

from .kernel import nap

_real_send = send


def send(processes, number):
    _real_send(processes, number)
    if number == signal.SIGSTOP:
        nap("stop")
"""

_GRIP = """

from .kernel import nap

_real_freeze, _real_thaw = Grip.freeze, Grip.thaw


def _freeze(self, deadline):
    proven = _real_freeze(self, deadline)
    nap("proof")
    return proven


def _thaw(self):
    nap("check")
    _real_thaw(self)
    nap("go")


Grip.freeze, Grip.thaw = _freeze, _thaw
"""


class Clocks:
    """The clocks of a machine that can be put to sleep, as files; and a copy of the keepers' code
    that goes by them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clocks"
        self.folder.mkdir()
        self.keepers = folder / "keeper"
        shutil.copytree(SOURCE, self.keepers, ignore=shutil.ignore_patterns("__pycache__"))
        for name, more in (
            ("kernel.py", _CLOCKS.replace("{folder!r}", repr(str(self.folder)))),
            ("tree.py", _TREE),
            ("grip.py", _GRIP),
        ):
            with (self.keepers / name).open("a") as file:
                file.write(more)

    def moment(self) -> float:
        return real_moment() + self.read("slept")

    def sleep(self, seconds: float) -> None:
        """The machine sleeps, and wakes up: the kernel rings the alarms that have come due."""
        self.write("slept", self.read("slept") + seconds)
        for path in self.folder.glob("alarm-*[0-9]"):
            keeper = int(path.name.rpartition("-")[2])
            numbers = (signal.SIGALRM, signal.SIGCONT)
            for due, number in zip(map(float, path.read_text().split()), numbers, strict=True):
                if 0 < due <= self.moment():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(keeper, number)

    def read(self, name: str) -> float:
        try:
            return float((self.folder / name).read_text())
        except FileNotFoundError:
            return 0.0

    def write(self, name: str, number: float) -> None:
        new = self.folder / f"{name}.tmp"
        new.write_text(json.dumps(number))
        new.rename(self.folder / name)


class Sleeper(Node):
    """A node of a machine that can be put to sleep."""

    def __init__(self, folder: Path) -> None:
        (folder / "state").mkdir()
        self.clocks = Clocks(folder)
        self.moment, self.sleep = self.clocks.moment, self.clocks.sleep
        super().__init__(folder / "state", source=self.clocks.keepers)

    def renew(self, seconds: float = 3600.0, length: float = 3600.0, boot: str = "") -> float:
        return super().renew(seconds + self.clocks.read("slept"), length, boot)

    def set_clock(self, seconds: float) -> None:
        """Ahead by so much; less than nothing: back."""
        self.clocks.write("wall", self.clocks.read("wall") + seconds)

    def pause(self, seconds: float) -> None:
        """The machine is paused from outside, and its clock is set right afterwards."""
        self.set_clock(seconds)

    def sleep_at(self, point: str, seconds: float) -> None:
        """The machine falls asleep as soon as a keeper gets there."""
        assert point in POINTS
        self.clocks.write(f"nap-{point}", seconds)

    def has_slept_at(self, point: str) -> bool:
        return not (self.clocks.folder / f"nap-{point}").exists()

    def confirm(self, attempt: Attempt) -> None:
        """The store has renewed the lease, and then says that the task is still ours."""
        self.renew()
        attempt.go(thaw=self.moment())
