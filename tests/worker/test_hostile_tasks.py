"""What a task leaves behind, by malice or mistake, harms neither its worker nor other tasks."""

from __future__ import annotations

import pytest

from stayer.service.control import tasks as control
from tests.faults.fleet import Fleet, until

REPORTS = {
    "deep": """python3 -c 'print("{\\"a\\":" + "[" * 100000)' >> "$STAYER_REPORT" """,
    "huge": """python3 -c 'print("{\\"done\\": 1" + "0" * 400 + "}")' >> "$STAYER_REPORT" """,
    "infinite": """echo '{"done": 1e999, "total": 2}' >> "$STAYER_REPORT" """,
    "surrogate": """echo '{"message": "\\\\ud800", "done": 1}' >> "$STAYER_REPORT" """,
}
ERRORS = {
    "deep": """python3 -c 'print("{\\"a\\":" + "[" * 100000)' > "$STAYER_DIR/error" """,
    "surrogate": """echo '{"type": "E", "message": "\\\\ud800"}' > "$STAYER_DIR/error" """,
    "snooze for ever": """echo '{"snooze": 1e999}' > "$STAYER_DIR/error" """,
    "not an object": "echo '[]' > \"$STAYER_DIR/error\"",
}


@pytest.mark.parametrize("kind", REPORTS)
def test_a_report_that_makes_no_sense(fleet: Fleet, kind: str) -> None:
    fleet.worker()
    fleet.submit("bad", "sh", "-c", f"{REPORTS[kind]}; sleep 1000")
    fleet.submit("good", "sh", "-c", 'echo 1/2 >> "$STAYER_REPORT"; sleep 1000')
    until(lambda: fleet.get("good").progress, "for the news of another task")
    number = fleet.store.workers()[0].number
    until(lambda: fleet.store.workers()[0].number > number + 5, "for more beats")
    for id in ("bad", "good"):
        control.cancel(fleet.store, id, grace=0)
        fleet.until_ended(id)


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_that_makes_no_sense(fleet: Fleet, kind: str) -> None:
    fleet.worker(slots=2)
    for id, command in (("bad", f"{ERRORS[kind]}; exit 1"), ("good", "exit 0")):
        fleet.submit(id, "sh", "-c", command)
    assert fleet.until_ended("bad").state == "failed"
    assert fleet.until_ended("good").state == "complete"


def test_a_folder_in_the_place_of_the_log(fleet: Fleet) -> None:
    fleet.worker(slots=1)
    fleet.submit("bad", "sh", "-c", 'echo hi; cd "$STAYER_DIR"; rm log; mkdir log')
    fleet.submit("good", "true")
    assert fleet.until_ended("bad").state == "complete"
    assert fleet.until_ended("good").state == "complete"


def test_ids_that_are_alike_have_folders_of_their_own(fleet: Fleet) -> None:
    names = [f"experiments/resnet50/cifar10/learning-rate=0.00{number}" for number in range(4)]
    names += ["長" * 100, "x/" + "長" * 90]
    for name in names:
        fleet.submit(name, "sh", "-c", f'echo "\\"{name}\\"" > "$STAYER_RESULT"')
    fleet.worker()
    assert [fleet.until_ended(name).result for name in names] == names
