"""`doctor`: looks at everything that has to be right, changes nothing, says what to do."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import rich_click as click
from msgspec import structs

from stayer import __version__
from stayer.cli.command import Given, command
from stayer.cli.output import plural, print_json, safe
from stayer.cli.redact import redact_passwords
from stayer.cli.state_dirs import default_state_dirs, state_dir_in_file
from stayer.config import DEFAULT, HOW_TO_TRUST, SETTINGS, Config
from stayer.config.trust import distrust, readers
from stayer.core.errors import Refused, StayerError
from stayer.core.insight.health import Finding
from stayer.core.liveness import lost_workers
from stayer.core.liveness.lost_workers import LostWorker
from stayer.core.liveness.silent import stuck_for
from stayer.core.units import format_duration, format_size
from stayer.core.worker_model import Worker
from stayer.service.degraded.partial import partly
from stayer.store import Store, known_lost_workers, known_workers

_OLDEST_SQLITE = (3, 35, 0)
_NETWORK_FILE_SYSTEMS = {
    "9p", "afs", "beegfs", "ceph", "cifs", "fuse.ceph", "fuse.glusterfs", "fuse.sshfs",
    "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4", "smb2", "smb3", "smbfs", "virtiofs",
}  # fmt: skip
_PASSWORD_FILE = re.compile(r"[?&]\w*password_file=([^&]*)")
_MOUNTS = "/proc/self/mountinfo"
_MOST_LISTED = 100
"""How many notices are looked at."""
_NOTICE_OVERDUE_S = 300.0
"""How late one may be before somebody should know, in seconds."""
_CLOCKS_APART_S = 5.0
_MAIL_SERVER_S = 10.0
"""How long a mail server may take to let us in, in seconds."""
_HOW_TO_BEGIN = "`stayer up` makes it and runs a worker here; `stayer init` only makes it"
_LITTLE_SPACE_BYTES, _NO_SPACE_BYTES = 1_000_000_000, 50_000_000


@command()
@click.option("--json", "as_json", is_flag=True, help="Print an array of findings, as JSON.")
def doctor(given: Given, as_json: bool) -> int:
    """Check that all is well, and say what to do if not.

    The exit code is 1 if a check failed. It creates no store where there is none.
    """
    findings = list(_look_at_everything(given))
    if as_json:
        print_json([structs.asdict(finding) for finding in findings])
    else:
        _print(findings)
    return int(any(finding.status == "fail" for finding in findings))


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    from stayer.cli.tables import draw

    styles = {"ok": "green", "warn": "bold yellow", "fail": "bold red"}
    lines = []
    for finding in findings:
        line = Text(f"{finding.status:6}", styles[finding.status])
        line.append(f"{finding.check:13}", "default bold")
        line.append(safe(finding.message), "default not bold")
        lines.append(line)
        if finding.todo:
            lines.append(Text(f"{'':19}{safe(finding.todo)}", "bold"))
    draw(*lines)


def _look_at_everything(given: Given) -> Iterator[Finding]:
    given.quiet = True  # what is passed over is a finding
    try:
        store = given.unopened_store()
    except StayerError as error:
        yield from (_versions(), _failure("settings", error))
        return
    yield _versions() if store.path is None else _versions_with_sqlite()
    config = given.config()
    yield Finding("settings", "ok", f"store {store.url} (from {config.sources['store']})")
    yield from _check_ignored_config(config)
    yield from _check_secrets(config)
    yield from _check_hooks(config)
    yield from _check_unattended(given)
    if store.path is not None:
        is_shared = "shared=" in store.url.partition("?")[2]
        yield from _check_file(store.path, is_shared, config.sources["store"] == DEFAULT)
        if not os.path.exists(store.path):
            return
    yield from _check_store(store)


def _versions() -> Finding:
    return Finding("versions", "ok", f"stayer {__version__}, Python {platform.python_version()}")


def _versions_with_sqlite() -> Finding:
    message = f"{_versions().message}, SQLite {sqlite3.sqlite_version}"
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        wanted = ".".join(map(str, _OLDEST_SQLITE))
        return Finding("versions", "fail", message, f"use a Python with SQLite {wanted} or newer")
    return Finding("versions", "ok", message)


def _check_file(path: str, is_shared: bool, is_default: bool) -> Iterator[Finding]:
    folder = os.path.dirname(path)
    if not os.path.exists(path):
        can_make = is_default or os.path.isdir(folder)
        todo = _HOW_TO_BEGIN if can_make else f"make the folder {folder}"
        yield Finding("file", "fail", f"there is no store at {path}", todo)
    if os.path.isdir(folder):
        yield _check_permissions(path, folder, is_shared)
        yield _check_space(folder)
        yield _check_file_system(folder)


def _check_permissions(path: str, folder: str, is_shared: bool) -> Finding:
    for place in (folder, path):
        if os.path.exists(place) and not os.access(place, os.R_OK | os.W_OK):
            return Finding(
                "permissions",
                "fail",
                f"this user may not read and write {place}",
                "change its owner or its permissions",
            )
    if is_shared or not os.path.exists(path):
        return Finding("permissions", "ok", f"{path} can be read and written")
    found = os.stat(path)
    if why_not := distrust(found):
        return Finding(
            "permissions",
            "fail",
            f"{path}: {why_not}. Who can write it decides what runs",
            f"make it yours alone: chown {path}* to you, chmod 600; or, if others are to use it, "
            f"add ?shared={'all' if found.st_mode & stat.S_IWOTH else 'group'} to the store's URL",
        )
    if who := readers(found):
        return Finding(
            "permissions",
            "warn",
            f"{who} can read {path}: parameters, variables, logs and results of all tasks",
            f"chmod 600 {path}*",
        )
    return Finding("permissions", "ok", f"{path} can be read and written by its user alone")


def _check_ignored_config(config: Config) -> Iterator[Finding]:
    if config.passed_over is not None:
        yield Finding(
            "file here",
            "warn",
            f"not read: {config.passed_over}",
            HOW_TO_TRUST,
        )


def _check_secrets(config: Config) -> Iterator[Finding]:
    """Report passwords and tokens that somebody else can read."""
    has_password = redact_passwords(config.store) != config.store
    if has_password and config.sources["store"] == SETTINGS["store"].flag:
        yield Finding(
            "secrets",
            "warn",
            "the password in --store can be seen by every user of this machine, with ps",
            "set STAYER_STORE, name the store in a file, or write "
            "?password_file=/path/of/a/file instead of the password",
        )
    problems = {
        "the password of the store": has_password and config.sources["store"] == config.file,
        "the token": bool(config.token) and config.sources["token"] == config.file,
        "the secret of notices": "secret" in config.notices,
        **{f"the secrets of hook {name}": _has_secret(hook) for name, hook in config.hooks.items()},
    }
    kept = [what for what, there in problems.items() if there]
    if config.file is not None and kept and (who := _readers_of(config.file)):
        yield Finding(
            "secrets",
            "warn",
            f"{who} can read {' and '.join(kept)} in {config.file}",
            f"chmod 600 {config.file}",
        )
    for file in _PASSWORD_FILE.findall(config.store):
        place = os.path.expanduser(unquote(file))
        if who := _readers_of(place):
            yield Finding(
                "secrets", "warn", f"{who} can read the password in {place}", f"chmod 600 {place}"
            )


def _has_secret(hook: dict[str, Any]) -> bool:
    in_url = redact_passwords(hook.get("url", "")) != hook.get("url", "")
    return in_url or any(name in hook for name in ("secret", "password", "headers"))


def _check_hooks(config: Config) -> Iterator[Finding]:
    """Report hooks that can't work from here. Nobody is told anything."""
    if not config.hooks:
        return
    from stayer.service.notify import smtp
    from stayer.service.notify.settings import read_config

    try:
        whom = read_config(config)
    except StayerError as error:
        yield _failure("hooks", error)
        return
    problems: dict[str, str] = {}
    for name, hook in whom.hooks.items():
        if hook.command is not None and shutil.which(hook.command[0]) is None:
            problems[name] = f"there is no program {hook.command[0]}"
        elif hook.mail is not None:
            answered = smtp.check(hook.mail, whom.secrets[name], _MAIL_SERVER_S)
            if not answered.delivered:
                problems[name] = f"mail server {hook.mail.host}: {answered.summary}"
    for name, why in problems.items():
        yield Finding(
            "hooks",
            "warn",
            f"{name}: {why}",
            f"correct [hooks.{name}], then try it with `stayer notices test {name}`",
        )
    if not problems:
        yield Finding("hooks", "ok", f"{plural(len(whom.hooks), 'hook')}: {', '.join(whom.hooks)}")


def _readers_of(file: str) -> str | None:
    try:
        return readers(os.stat(file))
    except OSError:
        return None


def _check_space(folder: str) -> Finding:
    free = _free(folder)
    message = f"{format_size(free)} free in {folder}"
    if free >= _LITTLE_SPACE_BYTES:
        return Finding("disk", "ok", message)
    todo = "free some space; `stayer purge --older 7d` forgets old tasks"
    return Finding("disk", "fail" if free < _NO_SPACE_BYTES else "warn", message, todo)


def _free(folder: str) -> int:
    return shutil.disk_usage(folder).free


def _check_file_system(folder: str) -> Finding:
    kind = _kind_of_file_system(os.path.realpath(folder))
    if kind in _NETWORK_FILE_SYSTEMS:
        return Finding(
            "file system",
            "warn",
            f"{folder} is on a network file system ({kind}), where SQLite can lose data",
            "move the store to a local disk; for several machines use a database server",
        )
    return Finding("file system", "ok", f"{folder} is on a local disk ({kind or 'unknown kind'})")


def _kind_of_file_system(folder: str) -> str | None:
    """Find the kind by the longest mount point above the folder; None where there is no list."""
    best, kind = "", None
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                fields, _, rest = line.partition(" - ")
                point = fields.split()[4].replace("\\040", " ")
                inside = folder == point or folder.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= len(best):
                    best, kind = point, rest.split()[0]
    except OSError:
        return None
    return kind


def _check_unattended(given: Given) -> Iterator[Finding]:
    """Report what an earlier worker of this node has left running."""
    if platform.system() != "Linux":
        return
    from stayer.worker.unattended_runs import list_unattended

    named = state_dir_in_file(given.config())
    for state in [named] if named else default_state_dirs():
        yield from _check_refused_results(state)
        found = list_unattended(state)
        if not found:
            continue
        names = ", ".join(each.task + (" (frozen)" if each.is_frozen else "") for each in found)
        yield Finding(
            "left behind",
            "warn",
            f"{plural(len(found))} in {state} with no worker to look after them: {names}",
            "start a worker there (`stayer worker`): it goes on with what is still its own, and "
            f"kills the rest. Without one, `rm -r {found[0].folder}` ends such a task",
        )


def _check_refused_results(state: Path) -> Iterator[Finding]:
    """Report results that the store would not take, which stay on this node for a while."""
    from stayer.worker.refused_results import REFUSED_RESULT_KEPT_S, find_refused_results

    found = find_refused_results(state)
    if not found:
        return
    size = format_size(sum(each.size for each in found))
    names = ", ".join(each.task or each.path.parent.name for each in found[:_MOST_LISTED])
    yield Finding(
        "refused",
        "warn",
        f"{plural(len(found), 'result')} ({size}) in {state / 'run'} that the store would not "
        f"take, of: {names}",
        f"take what you need from there: it is removed {format_duration(REFUSED_RESULT_KEPT_S)} "
        "after its task ended, or when the task is purged or completes after all",
    )


_NODES_NAMED = 3
"""How many nodes without a worker are named."""
_HOW_TO_FOLLOW = "set STAYER_STORE, or store in stayer.toml, to that one, and start workers again"


def _check_store(store: Store) -> Iterator[Finding]:
    try:
        if store.path is None and not store.is_made():
            yield Finding("store", "fail", f"there are no tables at {store.url}", _HOW_TO_BEGIN)
            yield from store.check()
            return
        store.setup()
        if (seal := store.seal()) is not None:
            yield Finding("moved", "fail", seal.message, _HOW_TO_FOLLOW)
        apart = store.now() - _local_clock()
        queues, away = partly(store, (), store.queues)
        yield _check_queues(len(queues), away)
        yield from store.check()
        yield _check_clock(apart)
        yield from _check_incoming(store)
        waiting = sum(queue.counts.get("pending", 0) for queue in queues if not queue.paused)
        yield from _look_if_allowed("workers", lambda: list(_check_all_workers(store, waiting)))
        if not away:
            yield from _look_if_allowed("notices", lambda: list(_check_notices(store)))
    except StayerError as error:
        yield _failure("store", error)
    finally:
        store.close()


def _look_if_allowed(check: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    """Look, unless the token is not for that, such as one for some queues only."""
    try:
        return look()
    except Refused as error:
        return [Finding(check, "ok", f"not looked at: {error}")]


def _check_queues(number: int, away: dict[str, str]) -> Finding:
    if not away:
        return Finding("store", "ok", f"answers, {plural(number, 'queue')}")
    message = f"{plural(number, 'queue')} can be reached, {len(away):,} can't: {', '.join(away)}"
    return Finding("store", "fail", message, "what stands below says why")


def _local_clock() -> float:
    return time.time()


def _check_clock(apart: float) -> Finding:
    if abs(apart) < _CLOCKS_APART_S:
        return Finding("clock", "ok", "the store's clock and this one agree")
    side = "ahead of" if apart > 0 else "behind"
    return Finding(
        "clock",
        "warn",
        f"the store's clock is {format_duration(abs(apart))} {side} this one",
        "set both by NTP: etas and ages are by the store's clock",
    )


def _check_all_workers(store: Store, waiting: int) -> Iterator[Finding]:
    alive = known_workers(store)
    yield _check_workers(alive, store.now()) if alive else _no_worker(waiting)
    if down := known_lost_workers(store, alive):
        yield _check_down(down, alive)


def _check_incoming(store: Store) -> Iterator[Finding]:
    """Warn of what programs have pushed, if nobody is there to take it."""
    if (number := store.count_incoming()) and not known_workers(store):
        yield Finding(
            "incoming",
            "warn",
            f"{plural(number, 'item')} that came from outside, and no worker to take "
            f"{'it' if number == 1 else 'them'}",
            "start a worker, or `stayer serve`: either makes tasks of what was pushed",
        )


def _check_down(down: list[LostWorker], alive: list[Worker]) -> Finding:
    """Warn of nodes that are gone; a worker that was started again on its node is good news."""
    nodes = {worker.node for worker in alive if worker.state != "STALE"}
    gone = {lost.node: lost for lost in reversed(down) if lost.node not in nodes}
    lost = f"{plural(len(down), 'worker')} lost in the last day"
    if not gone:
        return Finding("down", "ok", f"{lost}; on each of their nodes there is one again")
    said = "; ".join(
        f"{node}: {lost_workers.why(last)}" for node, last in list(gone.items())[-_NODES_NAMED:]
    )
    return Finding(
        "down",
        "warn",
        f"{lost}, and no worker runs any more on {plural(len(gone), 'node')} ({said})",
        "look at that machine, or start a worker there again; `stayer workers` lists all",
    )


def _no_worker(waiting: int) -> Finding:
    """Say how to start one: a warning only if something waits for it."""
    todo = "`stayer up` starts one for commands, `stayer worker` any other"
    if waiting:
        return Finding("workers", "warn", f"no worker, and {plural(waiting, 'task')} to run", todo)
    return Finding("workers", "ok", "no worker yet: tasks wait until there is one", todo)


def _check_workers(workers: list[Worker], now: float) -> Finding:
    stale = [worker.id for worker in workers if worker.state == "STALE"]
    stuck = [worker.id for worker in workers if stuck_for(worker, now) is not None]
    if stuck and not stale:
        return Finding(
            "workers",
            "warn",
            f"the threads of {', '.join(stuck)} have not answered for a while: they run nothing",
            "its log names the tasks that may keep them from running: cancel those, or run them in "
            "processes (a worker without --threads)",
        )
    if not stale:
        return Finding("workers", "ok", f"{plural(len(workers), 'worker')}, none stale")
    return Finding(
        "workers",
        "warn",
        f"{', '.join(stale)} did not renew the lease",
        "look at that node; `stayer workers rm ID` returns its tasks to the queue",
    )


def _check_notices(store: Store) -> Iterator[Finding]:
    """Report notices that could not be delivered, or are overdue."""
    failed = store.notices(None, "failed", None, _MOST_LISTED).notices
    if failed:
        yield Finding(
            "notices",
            "warn",
            f"{_count_notices(len(failed))} could not be delivered, the last to "
            f"{failed[0].to}: {failed[0].said}",
            "see `stayer notices --state failed`; `stayer notices retry --failed` tries them again",
        )
    now = store.now()
    pending = store.notices(None, "pending", None, _MOST_LISTED).notices
    waiting = [
        each for each in pending if each.next is not None and now - each.next > _NOTICE_OVERDUE_S
    ]
    if waiting:
        yield Finding(
            "notices",
            "warn",
            f"{_count_notices(len(waiting))} to {waiting[0].to} should have been delivered",
            "run a worker or a server whose stayer.toml has this hook",
        )


def _count_notices(number: int) -> str:
    counted = plural(number, "notice")
    return f"over {counted}" if number == _MOST_LISTED else counted


def _failure(check: str, error: StayerError) -> Finding:
    return Finding(check, "fail", str(error))
