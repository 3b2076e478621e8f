"""`move`: copy a whole store into another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import rich_click as click

from stayer.cli.command import Given, command, refuse_memory
from stayer.cli.common_options import json_option
from stayer.cli.confirm import confirm
from stayer.cli.output import note, print_json, print_line, print_outcome
from stayer.cli.progress import Advance, progress
from stayer.core.errors import BadInput
from stayer.core.move.records import Stage
from stayer.service import move as moving
from stayer.service.move import Progress, address
from stayer.store import Store
from stayer.stores import open_store

_DONE = {"copy": "copied", "compare": "compared"}
_WORDS: dict[Stage, tuple[str, str]] = {
    "queues": ("queue", "queues"),
    "tasks": ("task", "tasks"),
    "logs": ("piece of a log", "pieces of logs"),
    "usage": ("point of usage", "points of usage"),
    "checkpoints": ("checkpoint", "checkpoints"),
    "flows": ("flow", "flows"),
    "schedules": ("schedule", "schedules"),
    "notices": ("notice", "notices"),
    "purged": ("purged id", "purged ids"),
    "figures": ("figure", "figures"),
    "ties": ("task that runs after others", "tasks that run after others"),
}
"""What one record of a stage is to people, and what several are."""


class _ProgressLines:
    """Says what was done, a line a stage, and shows how far the one under way is."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._last: Progress | None = None

    def __call__(self, now: Progress) -> None:
        last = self._last
        if last is not None and (last.step, last.stage) != (now.step, now.stage):
            self.finish()
        self._last = now
        self._advance(0, _done(now))

    def finish(self) -> None:
        """The stage is over."""
        if self._last is not None and self._last.records and self._last.stage in _WORDS:
            note(_done(self._last))
        self._last = None


def _done(now: Progress) -> str:
    return f"{_DONE[now.step]} {_counted(now.records, now.stage)}"


def _counted(number: int, stage: Stage) -> str:
    one, several = _WORDS.get(stage, (stage, stage))
    return f"{number:,} {one if number == 1 else several}"


@contextmanager
def show_progress() -> Iterator[_ProgressLines]:
    """Say how far a move is while this goes on."""
    with progress(None) as advance:
        said = _ProgressLines(advance)
        yield said
        said.finish()


@command()
@click.option(
    "--from",
    "source_url",
    metavar="URL",
    help="The store to be moved. Default: the one in use here.",
)
@click.option("--to", "target_url", metavar="URL", help="The store to move it to, which is empty.")
@click.option(
    "--reopen",
    is_flag=True,
    help="Let the store of --from be used again, after a move that was given up.",
)
@click.option(
    "-y", "--yes", is_flag=True, help="Don't ask before a store that was moved is reopened."
)
@json_option
def move(
    given: Given,
    source_url: str | None,
    target_url: str | None,
    reopen: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Copy a whole store, with its history, to another kind of store.

    Tasks, logs, checkpoints, queues, schedules, flows, notices and figures, with all times and
    numbers as they were. No worker may use either store meanwhile: `stayer drain` lets them finish.
    From the beginning on the old store takes no changes, and in the end it says where it has gone;
    nothing in it is deleted. All is counted and compared before the new one is opened. Whatever
    interrupts it, the same command goes on from there.
    """
    if source_url is not None:
        given.store_url = source_url
    source = given.store(moving=True)
    if reopen:
        _reopen(source, target_url, yes, as_json)
        return
    if target_url is None:
        raise BadInput("say where to: stayer move --to URL")
    refuse_memory(target_url)
    target = open_store(target_url)
    try:
        target.setup()
        _move(source, target, as_json)
    finally:
        target.close()


def _move(source: Store, target: Store, as_json: bool) -> None:
    note(f"moving {address(source)} to {address(target)}")
    with show_progress() as tell:
        moved = moving.move(source, target, tell)
    if as_json:
        print_json(
            {
                "from": address(source),
                "to": address(target),
                "moved": {str(stage): count for stage, count in moved.counts.items()},
            }
        )
        return
    counts = [_counted(count, stage) for stage, count in moved.counts.items() if count]
    if counts:
        print_line(f"moved {', '.join(counts)}: counted and compared, nothing is missing")
    print_line(f"{address(source)} is as it was, takes no more changes, and says where it has gone")
    print_line("Now let everybody use the new one (`store` in stayer.toml, or STAYER_STORE):")
    print_line(f"  export STAYER_STORE='{address(target)}'")
    print_line("  stayer doctor")
    print_line("Then start the workers again, with the options that they had.")


def _reopen(source: Store, target_url: str | None, yes: bool, as_json: bool) -> None:
    if target_url is not None:
        raise BadInput("--reopen is about the store of --from alone: leave out --to")
    seal = source.seal()
    if seal is not None and seal.role == "moved":
        question = (
            f"{source.url} was moved to {seal.other}. If that one is in use, tasks would run twice "
            "and schedules fire on both sides. Reopen it all the same?"
        )
        if not confirm(question, yes):
            return
    seal = moving.reopen(source)
    text = f"{source.url} is in use again. What is in {seal.other} is a part of a move: empty it"
    print_outcome(text, {"reopened": source.url, "other": seal.other}, as_json)
