"""What a worker makes of what it finds."""

from __future__ import annotations

import signal

from stayer.core.model import Policy
from tests.faults.fleet import Fleet, until

SAVE = 'echo saved > "$STAYER_CHECKPOINT.new"; mv "$STAYER_CHECKPOINT.new" "$STAYER_CHECKPOINT"'


def test_a_checkpoint_written_while_no_worker_lived_is_uploaded(fleet: Fleet) -> None:
    one = fleet.worker("one", lease=30)
    go = fleet.folder / "go"
    fleet.submit("a", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; {SAVE}; sleep 1000")
    fleet.until_state("a", "started")
    fleet.signal(one, signal.SIGKILL)
    go.touch()
    [run] = (fleet.folder / "one" / "run").iterdir()
    until((run / "task" / "checkpoint").exists)
    fleet.worker("one", lease=30)
    until(lambda: fleet.store.checkpoint("a"), "for the checkpoint")
    saved = fleet.store.checkpoint("a")
    assert saved is not None
    assert saved.data == b"saved\n"


def test_a_checkpoint_that_was_given_is_no_news(fleet: Fleet) -> None:
    """Else a task that kills its keeper each time would never be set aside."""
    fleet.worker("one", lease=30)
    kill = f'[ -e "$STAYER_CHECKPOINT" ] || {{ {SAVE}; sleep 1; }}; kill -9 $PPID; sleep 1000'
    fleet.submit("a", "sh", "-c", kill)
    task = fleet.until_ended("a")
    assert (task.state, task.ending) == ("failed", "lost")
    assert task.attempt <= 1 + Policy().losses


def test_a_worker_that_kept_still_does_until_its_tasks_have_ended(fleet: Fleet) -> None:
    one = fleet.worker("one", "--fence", "keep")
    fleet.stamper("a")
    fleet.until_stamped("a")
    fleet.until_state("a", "started")
    fleet.signal(one, signal.SIGHUP)
    assert fleet.end_of(one) == 0
    fleet.worker("one")
    until(lambda: [worker.number for worker in fleet.store.workers() if worker.number > 3])
    assert [worker.keeps for worker in fleet.store.workers()] == [True]
    fleet.finish("a")
    assert fleet.until_ended("a").attempt == 1


def test_an_unreadable_run_directory_is_left_alone(fleet: Fleet) -> None:
    folder = fleet.folder / "one" / "run" / "odd.1"
    folder.mkdir(parents=True)
    (folder / "task.json").write_text("")
    fleet.worker("one")
    fleet.submit("a", "true")
    assert fleet.until_ended("a").state == "complete"
