"""`worker`: take tasks and run them. `up`: all that it takes, on one machine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.output import many, note, say
from stayer.cli.worker_options import Wanted, wanted, worker_options
from stayer.core.errors import BadConfig, BadInput
from stayer.core.safe_text import log_printably

if TYPE_CHECKING:
    from stayer.config import Config
    from stayer.store import Store
    from stayer.worker.handlers import Handlers
    from stayer.worker.load_user_code import Said

T = TypeVar("T")
logger = logging.getLogger("stayer.worker")

DRAINED = 5
"""The exit code of a worker that was told to finish what it had: not to be started again."""


@command()
@worker_options
def worker(given: Given, **options: Any) -> int:
    """Take tasks and run them, each in a process of its own, or with --threads in a thread.

    The tasks outlive the worker: kill it, upgrade it, start it again, and they run on. TERM or
    Ctrl-C hands them back to the front of their queue; HUP leaves them running; USR1 lets them end
    (exit code 5 then); USR2 reads slots and limits anew. Threads end with their worker. A store
    that can't be reached is waited for, at the start too. What is not given here is taken from the
    table [worker] of stayer.toml, if it is there.
    """
    return _work(given, lambda: wanted(given.config(), options))


@command()
@worker_options
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N", help="Serve on this port. Default: 8787."
)
@click.option("--no-serve", is_flag=True, help="Run no server.")
def up(given: Given, port: int | None, no_serve: bool, **options: Any) -> int:
    """Make the store if need be, and run a worker and a server here.

    As `stayer worker --allow-commands`, with a slot for each processor: whoever may submit has a
    shell here. Say what else to run, and it runs only that. The server is that of `stayer serve`.
    For one machine, and for a first try.
    """

    def plan() -> Wanted:
        found = wanted(given.config(), options, slots=len(os.sched_getaffinity(0)))
        if not any(name for name in found.handlers if name not in ("env", "allow_env")):
            found.handlers["allow_commands"] = True
        return found

    with ExitStack() as beside:

        def ready() -> None:
            _welcome(given, plan())
            if not no_serve:
                from stayer.cli.up_server import server_beside

                beside.enter_context(server_beside(given, port))

        return _work(given, plan, ready)


def _welcome(given: Given, plan: Wanted) -> None:
    url = given.store(make=True).url
    where = f" --store {url}" if given.config().sources["store"] == "--store" else ""
    queues = plan.behaviour["queues"]
    queue = "" if queues[0] == given.config().queue else f" -q {queues[0]}"
    say(f"the store is {url}")
    hands = many(plan.behaviour["slots"], "slot")
    if plan.threads is not None:
        hands = many(plan.threads, "thread")
    say(f"{hands} for tasks of {', '.join(queues)}")
    say(
        "Ctrl-C stops what runs, and the next `stayer up` begins it again"
        + (f" (`kill -HUP {os.getpid()}` leaves it running)" if plan.threads is None else "")
    )
    if plan.threads is None:
        say(f"try, in another terminal: stayer run{where}{queue} -- echo hello")


def default_state(threads: bool = False) -> Path:
    """Where a worker keeps its state if nobody says."""
    home = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return home / "stayer" / ("threads" if threads else "worker")


def _work(
    given: Given, planned: Callable[[], Wanted], ready: Callable[[], None] = lambda: None
) -> int:
    from msgspec import convert

    from stayer.cli.hide_credentials import shield
    from stayer.service.notify.deliverer import delivering
    from stayer.worker.handlers import configure
    from stayer.worker.load_user_code import Asking
    from stayer.worker.loop import WorkerLoop
    from stayer.worker.options import Options
    from stayer.worker.state_directory import StateDirectory, node_name
    from stayer.worker.task_user import task_users

    def behaviour() -> dict[str, Any]:
        return {**planned().behaviour, "retention": given.config().kept}

    def reload() -> Options:
        return convert(behaviour(), Options)

    shield()
    plan = planned()
    _refuse_server(given.config().store)
    if plan.left_aside:
        note(plan.left_aside)
    settings = dict(plan.handlers)
    environment = dict(map(_pair, settings.pop("env", ())))
    users = task_users(plan.task_users, plan.behaviour["queues"])
    _start_log(plan.log)
    handlers = configure(**settings, environment=environment, users=users)
    folder = Path(plan.state_dir) if plan.state_dir else default_state(plan.threads is not None)
    state = StateDirectory(folder, plan.node or node_name())
    state.open(take_over=plan.take_over, shared=bool(users.all()))
    for user in users.all():
        handlers.try_out(user, state.path / "run")
    store = _reached(lambda: _prepared_store(given, handlers, plan.behaviour["queues"]))
    ready()
    if handlers.runs_anything:
        logger.info("--allow-commands: whoever may submit has a shell here")
    if plan.threads is None:
        loop = WorkerLoop(store, state, handlers, reload(), reload)

        def answered(user: str | None, said: Said) -> None:
            handlers.said[user] = said
            loop.look_again()
            declare = partial(declare_app, given.config(), handlers, store)
            _reached(lambda: declare(plan.behaviour["queues"]))

        missing = {
            user: code for user, code in handlers.code_of_app().items() if user not in handlers.said
        }
        with delivering(store, given.config()), Asking(missing, answered):
            loop.run()
        return DRAINED if loop.drained else 0
    from stayer.worker.threads.worker import ThreadOptions, ThreadsWorker

    about = {
        **behaviour(),
        "store": given.config().store,
        "app": handlers.app,
        "names": handlers.names,
        "threads": plan.threads,
        "environment": environment,
        "log": plan.log,
    }
    threads = ThreadsWorker(store, state, convert(about, ThreadOptions))
    with delivering(store, given.config()):
        threads.run()
    return DRAINED if threads.drained else 0


def _refuse_server(url: str) -> None:
    """Before it is waited for: no worker can take tasks from there."""
    scheme = url.partition("://")[0]
    if scheme in ("http", "https"):
        raise BadConfig(
            f"{scheme}://… is a server: a worker needs the store behind it, give it the URL of "
            "that (sqlite:…, redis:…)"
        )


def _reached(ask: Callable[[], T]) -> T:
    """No worker ends because its store is away, be it at its start: a server and its workers may
    be started together, in any order. What somebody has to mend is raised.
    """
    from stayer.core.errors import StoreUnreachable
    from stayer.service.degraded import log_once
    from stayer.worker.backoff import Patience

    patience, is_away = Patience(), False
    while True:
        try:
            answer = ask()
        except StoreUnreachable as error:
            is_away = True
            log_once.tell(logger, "can't begin yet, asking the store again", error)
            time.sleep(patience.next_pause())
        else:
            if is_away:
                log_once.is_over()
                logger.info("the store answers")
            return answer


def _prepared_store(given: Given, handlers: Handlers, queues: Collection[str]) -> Store:
    store = given.store(make=True)
    declare_schedules(given.config(), store)
    declare_app(given.config(), handlers, store, queues)
    declare_queues(given.config(), store)
    return store


def declare_schedules(config: Config, store: Store) -> None:
    """Let the schedules in the store be those that the file declares."""
    from stayer.core.schedules import parse
    from stayer.service.control import schedules

    if config.file is not None:
        folder = os.path.dirname(config.file)
        found = [
            parse.parse(each, f"{config.file}: [[cron]] {number}", _usual(config), folder)
            for number, each in enumerate(config.cron, start=1)
        ]
        schedules.declare(store, config.file, found)


def declare_app(config: Config, handlers: Handlers, store: Store, queues: Collection[str]) -> None:
    """Let them be those that the app declares, too, as far as it is heard."""
    from stayer.core.schedules import parse
    from stayer.service.control import schedules
    from stayer.worker import app_schedules

    if handlers.app is None:
        return
    usual = _usual(config)
    users = handlers.users.all()
    if users:
        spoken = {
            user.name: (said, [queue for queue in queues if handlers.users.of(queue) == user])
            for user in users
            if (said := handlers.said.get(user.name)) is not None
        }
        app_schedules.declare(store, handlers.app, spoken, usual)
    else:
        said = handlers.said[None]
        declared = [parse.parse(each, handlers.app, usual) for each in said.schedules]
        schedules.declare(store, f"app {handlers.app}", declared)


def _usual(config: Config) -> dict[str, Any]:
    """What a task of a schedule has that says nothing of it."""
    return {"queue": config.queue, "owner": config.owner, "retries": config.retries}


def declare_queues(config: Config, store: Store) -> None:
    """Let queues be limited as the file says."""
    from stayer.core.queue_settings import WrittenSettings
    from stayer.service.control import tasks as control

    for name, settings in config.queues.items():
        control.set_queue(store, name, **cast(WrittenSettings, settings))


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise BadInput(f"--env {text}: write NAME=VALUE")
    return name, value


def _start_log(file: str | None) -> None:
    try:
        # Opened anew when somebody has moved it away: logs are rotated.
        log_printably(WatchedFileHandler(file) if file else None)
    except OSError as error:
        raise BadInput(f"--log {file} can't be written: {error.strerror}") from None
