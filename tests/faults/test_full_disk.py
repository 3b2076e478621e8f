"""The disk of the state directory is full: tasks run, are stopped and go on all the same."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from stayer.service.control import tasks as control
from stayer.service.lease.heartbeat import moment
from tests.faults.fleet import Fleet, until
from tests.faults.test_store_gone import store_gone

HOG = 'cat /dev/zero > "$STAYER_DIR/data"; touch {}; sleep 1000'


@pytest.fixture
def disk(fleet: Fleet) -> Iterator[Path]:
    """A small one, for the state directory of the worker `one`."""
    place = fleet.folder / "one"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(place)],
        capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        pytest.skip("NOT TESTED: a full disk, because none may be mounted here")
    yield place
    fleet.close()
    subprocess.run(["umount", "-l", str(place)], check=True)


def _stamping(fleet: Fleet, id: str) -> None:
    fleet.stamper(id)
    fleet.until_stamped(id)
    fleet.until_state(id, "started")


def _stands_still(fleet: Fleet, id: str) -> bool:
    """Its keeper can't write down that it does."""
    stat = Path(f"/proc/{fleet.get(id).pid}/stat").read_text()
    return stat.rpartition(")")[2].split()[0] == "T"


def test_what_filled_the_disk_is_cancelled_and_its_worker_stopped(fleet: Fleet, disk: Path) -> None:
    worker = fleet.worker("one", lease=10)
    _stamping(fleet, "other")
    full = fleet.folder / "full"
    for hog, first in (("mean", 'rm -f "$STAYER_DIR/../go.spare"; '), ("hog", ""), ("again", "")):
        fleet.submit(hog, "sh", "-c", first + HOG.format(full))
        until(full.exists, "for the disk to be full")
        control.pause(fleet.store, "other")  # orders reach others, one after the other
        until(lambda: _stands_still(fleet, "other"))
        control.resume(fleet.store, "other")
        until(lambda: not _stands_still(fleet, "other"))
        if hog != "again":
            control.cancel(fleet.store, hog, grace=0)
            assert fleet.until_ended(hog).state == "cancelled"
            full.unlink()
    fleet.signal(worker, signal.SIGTERM)
    assert fleet.end_of(worker) == 0
    assert [fleet.get(id).state for id in ("other", "again")] == ["pending", "pending"]
    assert not fleet.strays()


def test_what_stood_still_on_a_full_disk_goes_on(fleet: Fleet, disk: Path) -> None:
    """Its keeper could not say that it has frozen it."""
    fleet.worker("one", lease=6)  # a keeper that is a sixth of it late is killed
    _stamping(fleet, "a")
    filler = f"cat /dev/zero > {disk}/filler"
    assert subprocess.run(["sh", "-c", filler], check=False, capture_output=True).returncode != 0

    def stamps() -> list[float]:
        return fleet.read_stamps("a")[1]

    with store_gone(fleet):
        until(lambda: moment() > stamps()[-1] + 2.0, "for it to stand still")
    before = len(stamps())
    fleet.until_stamped("a", more_than=before + 20)
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1
