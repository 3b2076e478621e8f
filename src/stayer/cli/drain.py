"""`drain`: let workers of this machine finish what they run, and take no more."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import rich_click as click

from stayer.cli.command import Given, argument, command
from stayer.cli.output import say
from stayer.cli.selection import Tries
from stayer.cli.values import complete_worker
from stayer.core.errors import BadInput, Refused, UnknownWorker
from stayer.core.model import Worker
from stayer.store import Store


@command()
@argument(
    "ids",
    nargs=-1,
    metavar="[WORKER]...",
    shell_complete=complete_worker,
    help="Ids of workers, as `stayer workers` lists them.",
)
@click.option("--node", metavar="NAME", help="All workers of this machine that go by this name.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The worker of this state directory. Default: that of `stayer worker`.",
)
def drain(given: Given, ids: tuple[str, ...], node: str | None, state_dir: Path | None) -> int:
    """Let workers of this machine finish what they run, and take no more.

    They end when the last of their tasks has. A worker can be told so only on the machine where
    it runs, by whom it belongs to.
    """
    if sum(map(bool, (ids, node, state_dir))) > 1:
        raise BadInput("give ids of workers, --node or --state-dir, only one of them")
    if not ids and node is None:
        from stayer.cli.worker import default_state

        in_file = given.config().worker.get("state_dir")
        _drain_the_one_in(state_dir or (Path(in_file) if in_file else default_state()))
        return 0
    tries = Tries()
    for worker in _named(given.store(), ids, tries) if ids else _of_node(given.store(), node):
        with tries.each():
            _tell(worker)
    return tries.worst


def _drain_the_one_in(folder: Path) -> None:
    pid = _holder(folder)
    if pid is None or folder.resolve() not in _held_by(pid):
        raise Refused(
            f"no worker of yours has {folder.absolute()}: say which with --state-dir, or by its id "
            "(`stayer workers` lists them)"
        )
    _send(pid, _identity(folder) or f"process {pid}")


def _named(store: Store, ids: Iterable[str], tries: Tries) -> Iterator[Worker]:
    known = {worker.id: worker for worker in store.workers()}
    for id in dict.fromkeys(ids):
        with tries.each():
            if id not in known:
                raise UnknownWorker(f"no worker {id!r} in {store.url}: see `stayer workers`")
        if id in known:
            yield known[id]


def _of_node(store: Store, node: str | None) -> list[Worker]:
    found = [worker for worker in store.workers() if worker.node == node]
    if not found:
        raise UnknownWorker(f"no worker of a node {node!r} in {store.url}: see `stayer workers`")
    return found


def _tell(worker: Worker) -> None:
    if worker.id not in map(_identity, _held_by(worker.pid)):
        raise Refused(
            f"worker {worker.id} does not run here, or is not yours: call `stayer drain` on "
            f"{worker.node} as its user, or send USR1 to process {worker.pid} there"
        )
    _send(worker.pid, worker.id)


def _send(pid: int, name: str) -> None:
    if not _hears(pid):
        raise Refused(f"{name} is just starting: try again in a second")
    try:
        os.kill(pid, signal.SIGUSR1)
    except (ProcessLookupError, PermissionError) as error:
        raise Refused(f"{name} can't be told: {error.strerror}") from None
    say(f"{name} takes no more tasks, and ends when it has none")


def _hears(pid: int) -> bool:
    """The signal would not kill it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    [caught] = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(caught, 16) & 1 << (signal.SIGUSR1 - 1))


def _held_by(pid: int) -> list[Path]:
    """The state directories whose lock the process has open: no other process is told to drain,
    whatever its number was used for before.
    """
    try:
        links = [Path(os.readlink(entry)) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return []
    return [link.parent for link in links if link.name == "lock" and _holder(link.parent) == pid]


def _holder(folder: Path) -> int | None:
    """Who says to have the state directory."""
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
