"""As `tests/cli/test_add_lines.py`, over HTTP."""

from pathlib import Path

from stayer.service.control import tasks as control
from stayer.store import Store
from tests.cli.running import Here
from tests.cli.test_add_lines import *  # noqa: F403
from tests.cli.test_add_lines import lines


def test_commands_run_where_they_were_submitted_or_where_it_is_said(  # type: ignore[no-redef]
    stayer: Here, store: Store, folder: Path
) -> None:
    """Nobody knows here which directories a worker has."""
    given = {"id": "said", "command": ["ls"], "cwd": "/x/../y"}

    stayer("add", "--jsonl", "-", input=lines(given, {"id": "unsaid", "command": ["ls"]})).works()

    assert [control.get(store, id).cwd for id in ("said", "unsaid")] == ["/x/../y", None]
