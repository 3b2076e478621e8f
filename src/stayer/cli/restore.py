"""`restore`: make a store of a backup."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.common_options import json_option
from stayer.cli.move import show_progress
from stayer.cli.output import note, plural, print_json, print_line
from stayer.service import backup as backups
from stayer.service.backup import Settled
from stayer.service.move import address
from stayer.store import Store
from stayer.stores import open_store


@command()
@argument("file", required=False, help="What `stayer backup` has written.")
@click.option("--to", "target_url", metavar="URL", required=True, help="The store to make of it.")
@click.option(
    "--resume",
    is_flag=True,
    help="Let its queues go on at once: no worker of the old store is left, anywhere.",
)
@json_option
def restore(given: Given, file: str | None, target_url: str, resume: bool, as_json: bool) -> None:
    """Make a store from a backup.

    The store of --to must be empty, and may be of another kind. Tasks that ran when the backup was
    made are back in their queue, and all queues are paused: workers of the old store may still run
    tasks that wait in the new one. When none is left, `stayer resume -q QUEUE` resumes a queue.

    Without FILE: do the same to a store that you have restored with the tools of its database.
    """
    target = open_store(target_url)
    try:
        counts: dict[str, int] = {}
        if file is None:
            target.setup()
            settled = backups.settle(target, resume=resume)
        else:
            with show_progress() as tell:
                settled, moved = backups.restore(file, target, tell, resume=resume)
            counts = {str(stage): number for stage, number in moved.counts.items()}
        _say(target, settled, counts, as_json)
    finally:
        target.close()


def _say(target: Store, settled: Settled, counts: dict[str, int], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "store": address(target), "restored": dict(counts), "returned": settled.returned,
                "workers": settled.workers, "paused": list(settled.paused),
            }
        )  # fmt: skip
        return
    if counts:
        what = f"{plural(counts.get('tasks', 0))} restored"
    else:
        there = sum(sum(queue.counts.values()) for queue in target.queues())
        what = f"it has {plural(there)}"
    print_line(f"{address(target)} is ready: {what}")
    if settled.returned == 1:
        note("1 task that was running is back in its queue")
    elif settled.returned:
        note(f"{settled.returned:,} tasks that were running are back in their queues")
    if settled.paused:
        note("all queues are paused. When no worker of the old store is left, let them go on:")
        print_line(f"  stayer resume --store '{address(target)}' -q {' -q '.join(settled.paused)}")
