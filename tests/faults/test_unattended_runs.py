"""What a worker that never comes back has left: it is told of, and can be ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

from stayer.worker.unattended_runs import list_unattended
from tests.cli.running import Apart
from tests.faults.fleet import Fleet, until


def test_a_frozen_task_without_a_worker_is_told_of_and_ends_with_its_folder(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path)
    state = tmp_path / "one"
    try:
        # Given a worker that is killed, and does not come back
        worker = fleet.worker(lease=2)
        fleet.stamper("a")
        fleet.until_stamped("a")
        assert list_unattended(state) == [], "a worker looks after it"
        fleet.signal(worker, signal.SIGKILL)
        until(lambda: [each.is_frozen for each in list_unattended(state)] == [True])

        # Then doctor tells of it
        (tmp_path / "stayer.toml").write_text(f'[worker]\nstate_dir = "{state}"\n')
        environment = {
            "STAYER_STORE": fleet.url, "HOME": str(tmp_path), "PATH": os.environ["PATH"],
        }  # fmt: skip
        done = Apart(environment, tmp_path)("doctor", "--json")
        [found] = [each for each in json.loads(done.out) if each["check"] == "left behind"]
        assert "a (frozen)" in found["message"]
        [left] = list_unattended(state)
        assert str(left.folder) in found["todo"]

        # And its process ends with the folder
        shutil.rmtree(left.folder)
        until(lambda: not fleet.strays(), "for the task to end")
    finally:
        fleet.close()
