"""`drain`: let workers finish what they run, and take no more."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.common_options import json_option
from stayer.cli.output import print_json, print_line, print_outcome
from stayer.cli.param_types import complete_worker
from stayer.cli.state_dirs import default_state_dir, state_dir_in_file
from stayer.cli.tries import Tries
from stayer.core.errors import BadInput, Refused, StoreError, UnknownWorker
from stayer.core.model import JSON
from stayer.service.control import workers as worker_control
from stayer.store import Store

_WHAT = "takes no more tasks, and ends when it has none"


@command()
@argument(
    "ids",
    nargs=-1,
    metavar="[WORKER]...",
    shell_complete=complete_worker,
    help="Ids of workers, as `stayer workers` lists them.",
)
@click.option("--node", metavar="NAME", help="All workers of the node with this name.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The worker of this state directory, on this machine. Default: that of `stayer worker`.",
)
@json_option
def drain(
    given: Given,
    ids: tuple[str, ...],
    node: str | None,
    state_dir: Path | None,
    as_json: bool,
) -> int:
    """Let workers finish what they run, and take no more tasks.

    They end after the last of their tasks. Workers named by id or node may be anywhere: they learn
    of it through the store. Without either, it is the worker of this machine's state directory.
    """
    if sum(map(bool, (ids, node, state_dir))) > 1:
        raise BadInput("give ids of workers, --node or --state-dir, only one of them")
    if not ids and node is None:
        folder = state_dir or state_dir_in_file(given.config()) or _usual_state_dir(given)
        name = _drain_the_one_in(folder)
        print_outcome(f"{name} {_WHAT}", [{"worker": name}], as_json)
        return 0
    store, tries = given.store(), Tries()
    done: list[JSON] = []
    for id in dict.fromkeys(ids) if ids else _of_node(store, node):
        with tries.each():
            is_draining = worker_control.drain(store, id)
            when = (
                "; it is silent, and hears of it when it is back"
                if is_draining.state == "STALE"
                else ""
            )
            done.append({"worker": id, "state": is_draining.state})
            if not as_json:
                print_line(f"{id} {_WHAT}{when}")
    if as_json:
        print_json(done)
    return tries.worst


def _usual_state_dir(given: Given) -> Path:
    """Return the one that a worker of this store has if nobody says."""
    try:
        identity = given.store().identity()
    except StoreError:  # no reason to leave its worker alone
        identity = None
    return default_state_dir(identity)


def _drain_the_one_in(folder: Path) -> str:
    """Drain the worker that has this state directory, and return what to call it."""
    pid = _holder(folder)
    if pid is None or not _has_lock(pid, folder):
        raise Refused(
            f"no worker of yours has {folder.absolute()}: say which with --state-dir, or by its id "
            "(`stayer workers` lists them)"
        )
    name = _identity(folder) or f"process {pid}"
    _send(pid, name)
    return name


def _of_node(store: Store, node: str | None) -> list[str]:
    found = [worker.id for worker in store.workers() if worker.node == node]
    if not found:
        raise UnknownWorker(f"no worker of a node {node!r} in {store.url}: see `stayer workers`")
    return found


def _send(pid: int, name: str) -> None:
    if not _handles_signal(pid):
        raise Refused(f"{name} is just starting: try again in a second")
    try:
        os.kill(pid, signal.SIGUSR1)
    except (ProcessLookupError, PermissionError) as error:
        raise Refused(f"{name} can't be told: {error.strerror}") from None


def _handles_signal(pid: int) -> bool:
    """Return whether the process handles the signal, instead of being killed by it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    [caught] = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & 1 << (signal.SIGUSR1 - 1))


def _has_lock(pid: int, folder: Path) -> bool:
    """Return whether the process holds the lock of the state directory, as the kernel says: no
    other process is told to drain, whatever its number was used for before. What a worker has open
    only root may see, since it hides its memory.
    """
    from stayer.worker.state_directory import lock_holders

    return pid in lock_holders(os.stat(folder / "lock").st_ino)


def _holder(folder: Path) -> int | None:
    """Return the process that says it has the state directory."""
    try:
        return int((folder / "lock").read_text())
    except (OSError, ValueError):
        return None


def _identity(folder: Path) -> str | None:
    try:
        found = json.loads((folder / "identity").read_text())
    except (OSError, ValueError):
        return None
    id = found.get("id") if isinstance(found, dict) else None
    return id if isinstance(id, str) else None
