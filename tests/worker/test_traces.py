"""A task's process goes on with the trace of whoever submitted it."""

from __future__ import annotations

import pytest

from tests.faults.fleet import Fleet

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_command_has_the_context_in_its_environment(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.submit(
        "t", "sh", "-c", 'printf "\\"$TRACEPARENT\\"" > $STAYER_RESULT', env={"TRACEPARENT": PARENT}
    )
    fleet.worker()
    assert fleet.until_state("t", "complete", "failed").result == PARENT
