"""Options that are far too long: one line that says so, and nothing submitted."""

from __future__ import annotations

import click
import pytest

from stayer.cli.main import cli
from stayer.store import Store
from tests.cli.running import Here
from tests.contract.long_inputs import LONG


def _texts(*words: str) -> list[str]:
    """The options of a command that take a value, but for what may be long, or names a file."""
    found: click.Command = cli
    for word in words:
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), word)
        assert command is not None
        found = command
    return [
        each.opts[-1]
        for each in found.params
        if isinstance(each, click.Option)
        and not each.is_flag
        and each.name not in ("data", "jsonl", "config", "store", "data_file")
    ]


@pytest.mark.parametrize("option", _texts("add"))
def test_an_option_of_add_is_refused_by_its_length(stayer: Here, store: Store, option: str) -> None:
    for text in LONG:
        done = stayer("add", option, f"A={text}" if option == "--env" else text, "--", "true")
        assert (done.code, done.err[:8]) == (2, "stayer: "), done.err[:200]
    assert store.queues() == []


@pytest.mark.parametrize("option", _texts("queues", "set"))
def test_a_setting_of_a_queue_is_refused_by_its_length(
    stayer: Here, store: Store, option: str
) -> None:
    more = [f"{text}=1" for text in LONG] if option == "--key-limit" else []
    for value in (*LONG, *more):
        done = stayer("queues", "set", "q", option, value)
        assert (done.code, done.err[:8]) == (2, "stayer: "), done.err[:200]
