"""What the end of a process means."""

from __future__ import annotations

from typing import Any

import pytest

from stayer.core.happenings import Fail
from stayer.keeper import accounts
from stayer.worker.outcome import outcome


@pytest.mark.parametrize("how", [{"signal": 9}, {"exit_code": 137}])
@pytest.mark.parametrize("oom", [True, False])
def test_a_kill_for_want_of_memory_is_named_so(how: dict[str, int], oom: bool) -> None:
    exit: dict[str, Any] = {"exit_code": None, "signal": None, "stop": None, "oom": oom, **how}
    happening = outcome(exit, None, "")
    assert isinstance(happening, Fail)
    assert (happening.ending == "oom") is oom


def test_only_what_the_machine_killed_of_late_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    kills = 5
    monkeypatch.setattr(accounts, "oom_kills", lambda: kills)
    watched = accounts.OutOfMemory()
    assert not watched.lately()
    kills = 6
    assert watched.lately()
    watched.look()
    assert watched.lately(), "it came with the look"
    watched.look()
    assert not watched.lately(), "that was another's, long ago"


def test_what_a_task_wrote_is_cut_to_what_a_record_can_carry() -> None:
    exit: dict[str, Any] = {"exit_code": 1, "signal": None, "stop": None, "oom": False}
    long = "x" * 10**6 + "end"
    happening = outcome(exit, {"type": long, "message": long, "traceback": long}, "")
    assert isinstance(happening, Fail)
    fault = happening.error
    assert len(fault.type) + len(fault.message) + len(fault.traceback or "") < 200_000
    assert (fault.traceback or "").endswith("end")
