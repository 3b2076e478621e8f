"""Running a worker here until it ends: what `worker` and `up` have in common."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection
from functools import partial
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from stayer.cli.command import Given
from stayer.cli.daemon import begin_daemon
from stayer.cli.declare import declare_app, declare_queues, declare_schedules
from stayer.cli.exit_codes import DRAINED
from stayer.cli.output import note
from stayer.cli.state_dirs import default_state_dir
from stayer.cli.worker_options import WorkerPlan
from stayer.core.errors import BadInput
from stayer.core.safe_text import LogLevel, log_printably

if TYPE_CHECKING:
    from stayer.store import Store
    from stayer.worker.handlers import Handlers
    from stayer.worker.load_user_code import AppDescription
    from stayer.worker.state_directory import StateDirectory
    from stayer.worker.task_code import CodeRules
    from stayer.worker.task_images import ImageRules

T = TypeVar("T")
logger = logging.getLogger("stayer.worker")


class _Prepared(NamedTuple):
    """What a worker begins with, of either kind."""

    store: Store
    state: StateDirectory
    handlers: Handlers
    environment: dict[str, str]


def run_worker(
    given: Given, planned: Callable[[], WorkerPlan], ready: Callable[[], None] = lambda: None
) -> int:
    """Take tasks until told to end; return the exit code. When the store is there, call `ready`."""
    from stayer.cli.hide_credentials import hide_credentials

    def behaviour() -> dict[str, Any]:
        return {**planned().behaviour, "retention": given.config().kept}

    hide_credentials()
    plan = planned()
    has_begun = begin_daemon(plan.daemon, plan.log) if plan.daemon else lambda: None
    if plan.ignored_note:
        note(plan.ignored_note)
    prepared = _prepare(given, plan)
    ready()
    has_begun()
    if prepared.handlers.runs_anything:
        logger.info("--allow-commands: whoever may submit has a shell here")
    run = _run_in_processes if plan.threads is None else _run_in_threads
    return DRAINED if run(given, plan, prepared, behaviour) else 0


def _prepare(given: Given, plan: WorkerPlan) -> _Prepared:
    """Open the log, the state directory and the store."""
    from stayer.worker.handlers import configure
    from stayer.worker.state_directory import StateDirectory, node_name
    from stayer.worker.task_user import task_users

    settings = dict(plan.handlers)
    environment = dict(map(_pair, settings.pop("env", ())))
    users = task_users(plan.task_users, plan.behaviour["queues"])
    _start_log(plan.log, plan.log_level)

    def identity() -> str:
        return _retry_until_reachable(lambda: given.store(make=True).identity())

    folder = (
        Path(plan.state_dir)
        if plan.state_dir
        else default_state_dir(identity(), threads=plan.threads is not None)
    )
    code, images = _code_rules(settings, environment, folder if users.all() else None)
    handlers = configure(**settings, environment=environment, users=users, code=code, images=images)
    state = StateDirectory(folder, plan.node or node_name())
    state.open(take_over=plan.take_over, store=identity, shared=bool(users.all()))
    for user in users.all():
        handlers.try_out(user, state.path / "run")
    store = _retry_until_reachable(
        lambda: _prepare_store(given, handlers, plan.behaviour["queues"])
    )
    return _Prepared(store, state, handlers, environment)


def _run_in_processes(
    given: Given, plan: WorkerPlan, prepared: _Prepared, behaviour: Callable[[], dict[str, Any]]
) -> bool:
    """Run each task in a process of its own; return whether the worker was drained."""
    from stayer.core.decoding import convert
    from stayer.service.notify.deliverer import deliver_meanwhile
    from stayer.worker.load_user_code import AppPoller
    from stayer.worker.loop import WorkerLoop
    from stayer.worker.options import Options

    store, state, handlers, _ = prepared

    def reload() -> Options:
        return convert(behaviour(), Options)

    def on_answer(user: str | None, description: AppDescription) -> None:
        handlers.app_descriptions[user] = description
        loop.look_again()
        if store.remote_operator is not None:
            return
        declare = partial(declare_app, given.config(), handlers, store)
        _retry_until_reachable(lambda: declare(plan.behaviour["queues"]))

    loop = WorkerLoop(store, state, handlers, reload(), reload)
    missing = {
        user: code
        for user, code in handlers.code_of_app().items()
        if user not in handlers.app_descriptions
    }
    with deliver_meanwhile(store, given.config), AppPoller(missing, on_answer):
        loop.run()
    return loop.is_drained


def _run_in_threads(
    given: Given, plan: WorkerPlan, prepared: _Prepared, behaviour: Callable[[], dict[str, Any]]
) -> bool:
    """Run all tasks in the threads of one process; return whether the worker was drained."""
    from stayer.config import token_for
    from stayer.core.decoding import convert
    from stayer.service.notify.deliverer import deliver_meanwhile
    from stayer.worker.threads.worker import ThreadOptions, ThreadsWorker

    store, state, handlers, environment = prepared
    about = {
        **behaviour(),
        "store": given.config().store,
        "token": token_for(given.config()),
        "app": handlers.app,
        "names": handlers.names,
        "threads": plan.threads,
        "environment": environment,
        "log": plan.log,
        "log_level": plan.log_level,
    }
    threads = ThreadsWorker(store, state, convert(about, ThreadOptions))
    with deliver_meanwhile(store, given.config):
        threads.run()
    return threads.is_drained


def _code_rules(
    settings: dict[str, Any], environment: dict[str, str], shared: Path | None
) -> tuple[CodeRules | None, ImageRules | None]:
    """Take out of the settings what they say of the code of tasks, and of images. `shared`: the
    state directory, where what is installed for tasks of other users is kept.
    """
    from stayer.cli.code_options import default_code
    from stayer.worker.task_code import code_rules, default_folder
    from stayer.worker.task_images import image_rules

    folder = settings.pop("code_dir", None)
    variables = dict(map(_pair, settings.pop("code_env", ())))
    limits = {
        name: settings.pop(f"code_{name}")
        for name in ("time_limit", "cache_size", "cache_age")
        if f"code_{name}" in settings
    }
    default = default_code(settings)
    path = environment.get("PATH") or os.environ.get("PATH") or os.defpath
    allow_image = settings.pop("allow_image", ())
    code = code_rules(
        allow=settings.pop("allow_code", ()),
        folder=Path(folder) if folder else shared / "code" if shared else default_folder(),
        variables=variables,
        limits=limits,
        path=path,
        shared=shared is not None,
        default=default,
    )
    return code, image_rules(allow=allow_image, variables=variables, limits=limits, path=path)


def _retry_until_reachable(ask: Callable[[], T]) -> T:
    """No worker ends because its store is away, be it at its start: a server and its workers may
    be started together, in any order. What somebody has to repair is raised.
    """
    from stayer.core.errors import StoreUnreachable
    from stayer.service.degraded import log_once
    from stayer.worker.backoff import Backoff

    patience, is_away = Backoff(), False
    while True:
        try:
            answer = ask()
        except StoreUnreachable as error:
            is_away = True
            log_once.warn_once(logger, "can't begin yet, asking the store again", error)
            time.sleep(patience.next_pause())
        else:
            if is_away:
                log_once.is_over()
                logger.info("the store answers")
            return answer


def _prepare_store(given: Given, handlers: Handlers, queues: Collection[str]) -> Store:
    store = given.store(make=True)
    if store.remote_operator is not None:
        config = given.config()
        if config.cron or config.queues or handlers.app is not None:
            logger.info(
                "schedules and settings of queues are declared where the server is, not here"
            )
        return store
    declare_schedules(given.config(), store)
    declare_app(given.config(), handlers, store, queues)
    declare_queues(given.config(), store)
    return store


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise BadInput(f"--env {text}: write NAME=VALUE")
    return name, value


def _start_log(file: str | None, level: LogLevel) -> None:
    try:
        # Opened anew when somebody has moved it away: logs are rotated.
        log_printably(WatchedFileHandler(file) if file else None, level)
    except OSError as error:
        raise BadInput(f"--log {file} can't be written: {error.strerror}") from None
