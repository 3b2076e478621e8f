"""Stopping before the machine sleeps: with a bus on which logind speaks as a test wants it."""

from __future__ import annotations

import array
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from stayer.worker.freeze_before_sleep import SleepWatcher
from stayer.worker.freeze_log import FreezeLogger
from stayer.worker.logind import Logind
from tests.faults.fleet import Fleet, until

ANSWER, ERROR, SIGNAL = 2, 3, 4


class Bus:
    """A system bus with a logind: answers every call, and keeps the other end of each lock."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix:path={folder}/bus"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "bus"))
        self._listening.listen()
        self._connection: socket.socket | None = None
        self.locks: list[int] = []
        self.is_lenient = True
        """Anybody may have the machine wait."""
        self.refused = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            self._connection, _ = self._listening.accept()
            heard = b""
            while b"BEGIN\r\n" not in heard:
                heard += self._connection.recv(4096)
                if heard.endswith(b"\r\n") and b"BEGIN" not in heard:
                    self._connection.sendall(
                        b"AGREE_UNIX_FD\r\n" if b"FD" in heard else b"OK 0123456789abcdef\r\n"
                    )
            heard = heard.partition(b"BEGIN\r\n")[2]
            while True:
                end = self._end_of_call(heard)
                if end:
                    self._answer(heard[:end])
                    heard = heard[end:]
                else:
                    heard += self._connection.recv(4096)

    def _end_of_call(self, heard: bytes) -> int:
        """Where the first one ends; 0 if it is not all there."""
        if len(heard) < 16:
            return 0
        body, _, fields = struct.unpack("<3I", heard[4:16])
        end: int = 16 + fields + -fields % 8 + body
        return end if len(heard) >= end else 0

    def _answer(self, call: bytes) -> None:
        assert self._connection is not None
        descriptors = array.array("i")
        if b"Inhibit" in call and not self.is_lenient:
            self.refused += 1
            name = b"org.freedesktop.DBus.Error.AccessDenied"
            field = b"\x04\x01s\0" + struct.pack("<I", len(name)) + name + b"\0"
            self._connection.sendall(_message(ERROR, field))
            return
        if b"Inhibit" in call:
            mine, theirs = os.pipe()
            self.locks.append(mine)
            descriptors.append(theirs)
        more = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if descriptors else []
        self._connection.sendmsg([_message(ANSWER)], more)
        for theirs in descriptors:
            os.close(theirs)

    def say(self, sleeps: bool) -> None:
        """That the machine is about to sleep, or has woken up."""
        assert self._connection is not None
        field = b"\x03\x01s\0" + struct.pack("<I", 15) + b"PrepareForSleep\0"
        self._connection.sendall(_message(SIGNAL, field, struct.pack("<I", sleeps)))

    def is_released(self, number: int) -> bool:
        """The lock that was given as this one has been closed."""
        os.set_blocking(self.locks[number], False)
        try:
            return os.read(self.locks[number], 1) == b""
        except BlockingIOError:
            return False

    def close(self) -> None:
        self._listening.close()
        if self._connection is not None:
            self._connection.close()
        for lock in self.locks:
            os.close(lock)

    def hang_up(self) -> None:
        """Go, as when it is restarted."""
        assert self._connection is not None
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self.close()


def _message(kind: int, fields: bytes = b"", body: bytes = b"") -> bytes:
    fixed = struct.pack("<4B3I", ord("l"), kind, 0, 1, len(body), 1, len(fields))
    return fixed + fields + bytes(-len(fields) % 8) + body


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    bus = Bus(tmp_path)
    yield bus
    bus.close()


def test_tasks_stand_still_before_the_machine_sleeps_and_go_on_after(
    fleet: Fleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.address)
    fleet.worker(lease=60.0)
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: len(bus.locks) == 1, "for the worker to ask for time")
    bus.say(sleeps=True)
    until(lambda: bus.is_released(0), "for the machine to be let go")
    still = len(fleet.read_stamps("a")[1])
    # While it has not woken up nothing goes on, though the lease is good.
    assert [each for each in fleet.store.events("a") if each.event == "thawed"] == []
    assert len(fleet.read_stamps("a")[1]) == still
    bus.say(sleeps=False)
    fleet.until_stamped("a", more_than=still)
    until(lambda: len(bus.locks) == 2, "for the worker to be ready for the next night")
    fleet.finish("a")
    assert (fleet.until_ended("a").state, fleet.get("a").attempt) == ("complete", 1)


def test_tasks_stand_still_too_where_the_machine_does_not_wait_for_this_user(
    fleet: Fleet, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As without polkit, for all but root."""
    bus.is_lenient = False
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.address)
    fleet.worker(lease=60.0)
    fleet.stamper("a")
    fleet.until_stamped("a")
    until(lambda: bus.refused == 1, "for the worker to ask for time")
    bus.say(sleeps=True)
    running = fleet.folder / "one" / "run" / "a.1" / "running"
    until(lambda: "fenced" in json.loads(running.read_text())["stopped"], "for the task to stop")
    still = len(fleet.read_stamps("a")[1])
    bus.say(sleeps=False)
    fleet.until_stamped("a", more_than=still)
    fleet.finish("a")
    assert (fleet.until_ended("a").state, fleet.get("a").attempt) == ("complete", 1)


class Frozen(list[Any]):
    """Attempts that stand still."""

    def list_fenced(self) -> list[Any]:
        return list(self)


def test_only_what_stands_still_for_want_of_a_lease_is_said_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    leases = SimpleNamespace(until=lambda _: 100.0, length=60.0)
    asleep, fenced = (
        SimpleNamespace(key=(id, 1), fenced_since=50.0, task=SimpleNamespace(id=id, queue="q"))
        for id in ("asleep", "fenced")
    )
    logger = FreezeLogger(cast("Any", Frozen([asleep, fenced])), cast("Any", leases), {asleep.key})
    logger.look()
    assert [each.args[0] for each in caplog.records if isinstance(each.args, tuple)] == ["fenced"]


def test_a_worker_without_a_bus_does_without(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={fleet.folder}/nobody")
    fleet.worker(lease=60.0)
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"


def test_a_bus_that_was_restarted_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stayer.worker.freeze_before_sleep.RECONNECT_S", 0.01)
    first = Bus(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", first.address)
    SleepWatcher(lambda: None, lambda: True).start()
    until(lambda: first.locks, "for a lock")
    first.hang_up()
    (tmp_path / "bus").unlink()
    second = Bus(tmp_path)
    until(lambda: second.locks, "for a lock of the next one")
    second.hang_up()


def accepts(path: Path) -> bool:
    """Its file is there some time before somebody listens."""
    with socket.socket(socket.AF_UNIX) as there:
        return there.connect_ex(str(path)) == 0


def test_it_speaks_as_a_real_bus_wants_it(tmp_path: Path) -> None:
    """Which hangs up on what is not well said, and here knows no logind."""
    if shutil.which("dbus-daemon") is None:
        pytest.skip("NOT TESTED: no dbus-daemon here")
    arguments = ["dbus-daemon", "--session", f"--address=unix:path={tmp_path}/real", "--nofork"]
    daemon = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    try:
        until(lambda: accepts(tmp_path / "real") or daemon.poll() is not None, "for the bus")
        if daemon.poll() is not None:
            pytest.skip("NOT TESTED: dbus-daemon can't be run by this user")
        logind = Logind(f"unix:path={tmp_path}/real")
        with pytest.raises(OSError, match="Inhibit was refused"):
            logind.delay_sleep()
        with pytest.raises(OSError, match="Inhibit was refused"):
            logind.delay_sleep()  # still connected
        logind.close()
    finally:
        daemon.kill()
        daemon.wait()


def test_a_bus_that_hangs_up_is_an_error(tmp_path: Path) -> None:
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "bus"))
    listening.listen()

    def hang_up() -> None:
        listening.accept()[0].close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with pytest.raises(OSError, match=r"hung up|Broken pipe|reset"):
        Logind(f"unix:path={tmp_path}/bus")
    thread.join()
    listening.close()
