"""Whether the user's code can be loaded, and what an app says of itself.

That is for a process of whoever will run that code: root runs nothing that others may write. With
`--task-user` its answer may be anybody's who has a process of that user, whatever is done against
it. So it counts for the queues of that user only, and what it asks for is looked at.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct

from stayer.core import fields
from stayer.core.decoding import json_decoder
from stayer.core.errors import BadConfig
from stayer.core.notify.mail import PASSWORD_VARIABLE
from stayer.worker.ask_process import (
    ANSWER_LIMIT_BYTES,
    AnswerTooLong,
    ProcessInterrupted,
    ask,
    describe_signal,
)
from stayer.worker.backoff import Backoff
from stayer.worker.task_user import GUARD, TaskUser

logger = logging.getLogger("stayer.worker")

RUNNER = (sys.executable, "-P", "-m", "stayer.task")
_GUARDED_RUNNER = f"""{GUARD}
import sys
from stayer.task.main import main
sys.exit(main(sys.argv[1:]))
"""
_START_RETRIES_S = (0.25, 0.5, 1.0)
"""How long to wait before each further try, at the start."""
_LONGEST_RETRY_S = 60.0
"""How long to wait at most before a further try later on."""
_JOIN_TIMEOUT_S = 5.0
"""How long the asking thread may take to end; it may wait for the store."""
_NAMES_LIMIT = 2000
"""How many names a user may claim: they go to the store with each beat."""
_SECRET_VARIABLES = ("STAYER_STORE", "STAYER_CONFIG", "STAYER_TOKEN", PASSWORD_VARIABLE)

T = TypeVar("T")


class AppDescription(Struct, frozen=True):
    """What an app says of itself."""

    names: tuple[Annotated[str, Meta(max_length=fields.MOST["name"].characters)], ...]
    schedules: tuple[dict[str, Any], ...] = ()
    """As `core.schedules.parse` reads them."""
    routes: tuple[Annotated[str, Meta(max_length=fields.MOST["name"].characters)], ...] = ()
    """Patterns of the names of other tasks that it runs."""
    threads: int = 1
    """How many there were when it had been imported."""


_decode = json_decoder(AppDescription).decode


class Code(Struct, frozen=True):
    """What is to be loaded, by whom, and with which variables of the worker's."""

    flag: str
    target: str
    environment: Mapping[str, str]
    user: TaskUser | None
    """None: the worker's own."""
    arguments: tuple[str, ...] = ()
    """Those of a file, in its `sys.argv`."""

    def __str__(self) -> str:
        return f"{self.flag} {self.target}"

    @property
    def by(self) -> str:
        """Who loads it, if that is somebody else."""
        return f" by {self.user.name}" if self.user else ""

    def variables(self) -> dict[str, str]:
        """Return those of the process that loads it."""
        if self.user is None:
            return {**inherited_environment(), **self.environment}
        own = self.user.environment(os.environ)
        return {**own, **self.environment, "PYTHONNOUSERSITE": "1"}


def inherited_environment() -> dict[str, str]:
    """Return the worker's variables, less what opens the store."""
    return {name: value for name, value in os.environ.items() if name not in _SECRET_VARIABLES}


def check_class(code: Code) -> int:
    """Check that the class can be loaded, and return how many threads there are then; raises
    BadConfig. If that can't be found out, tasks will show it.
    """
    try:
        said = _retry_interrupted(lambda: _ask(code, "check")).splitlines()
    except ProcessInterrupted as error:
        logger.warning("%s could not be tried out%s: %s", code, code.by, error)
        return 1
    return int(said[-1]) if said and said[-1].isdigit() else 1


def describe_app(code: Code) -> AppDescription | None:
    """Return what the app has; None if that can't be found out just now. Raises BadConfig."""
    try:
        return _retry_interrupted(lambda: _ask_app(code))
    except ProcessInterrupted as error:
        logger.error(
            "%s can't be loaded%s: %s. Another process of that user may have done it, or the app "
            "itself. Until it can be loaded, this worker takes no tasks of the app in the queues "
            "of that user; it tries again and again",
            code, code.by, error,
        )  # fmt: skip
        return None


def _retry_interrupted(step: Callable[[], T]) -> T:
    for pause in _START_RETRIES_S:
        try:
            return step()
        except ProcessInterrupted:
            time.sleep(pause)
    return step()


def _ask_app(code: Code, is_called_off: Callable[[], bool] = lambda: False) -> AppDescription:
    output = _ask(code, "names", is_called_off)
    try:
        about = _decode(output.splitlines()[-1] if output else b"")
    except (ValueError, RecursionError) as error:  # also what can't be decoded
        if code.user:
            raise ProcessInterrupted("somebody else spoke for it") from error
        raise BadConfig(f"{code} can't be loaded: what it prints last is not ours") from error
    if code.user and len(about.names) + len(about.routes) > _NAMES_LIMIT:
        raise ProcessInterrupted(f"it claims to have more than {_NAMES_LIMIT:,} functions")
    return about


def _ask(code: Code, verb: str, is_called_off: Callable[[], bool] = lambda: False) -> bytes:
    """Run our runner and return what it prints; raises BadConfig and ProcessInterrupted."""
    if code.user is None:
        words, process = [*RUNNER, verb], {"env": inherited_environment()}
    else:
        words = [sys.executable, "-s", "-P", "-c", _GUARDED_RUNNER, verb]
        process = code.user.as_process()
    words += [code.target, *code.arguments]
    process["env"] |= code.environment
    if code.user is not None:
        process["env"]["PYTHONNOUSERSITE"] = "1"
    try:
        answer = ask(words, process, is_called_off=is_called_off)
    except OSError as error:
        raise BadConfig(f"{sys.executable} can't be run{code.by}: {error.strerror}") from error
    except AnswerTooLong:
        problem = f"it prints more than {ANSWER_LIMIT_BYTES // 1000**2} MB"
        raise BadConfig(f"{code} can't be loaded{code.by}: {problem}") from None
    except ProcessInterrupted as error:
        if code.user:
            raise
        raise BadConfig(f"{code} can't be loaded: {error}") from None
    if answer.code < 0 and code.user:
        raise ProcessInterrupted(describe_signal(answer.code))
    if answer.code != 0:
        why = describe_signal(answer.code) if answer.code < 0 else answer.complaint or "no message"
        raise BadConfig(f"{code} can't be loaded{code.by}: {why}")
    return answer.output


class AppPoller:
    """A thread that asks on, until all users have said what their app is."""

    def __init__(
        self,
        missing: Mapping[str | None, Code],
        on_answer: Callable[[str | None, AppDescription], object],
    ) -> None:
        """By the names of users; `on_answer` is called in that thread."""
        self._missing = dict(missing)
        self._on_answer = on_answer
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="app", daemon=True)

    def __enter__(self) -> None:
        if self._missing:
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_TIMEOUT_S)

    def _run(self) -> None:
        patience = Backoff(longest=_LONGEST_RETRY_S)
        logged: dict[str | None, str] = {}
        while self._missing and not self._is_over.wait(patience.next_pause()):
            for name, code in list(self._missing.items()):
                why = self._ask_for(name, code)
                if why is not None and why != logged.get(name) and not self._is_over.is_set():
                    logged[name] = why
                    logger.error("%s", why)

    def _ask_for(self, name: str | None, code: Code) -> str | None:
        """Ask once; return why there is no answer, if there is none."""
        try:
            description = _ask_app(code, self._is_over.is_set)
        except BadConfig as error:
            return str(error)
        except ProcessInterrupted as error:
            return f"{code} still can't be loaded{code.by}: {error}"
        del self._missing[name]
        logger.info("%s is loaded%s: its tasks are taken now", code, code.by)
        try:
            self._on_answer(name, description)
        except Exception:
            logger.exception("its schedules could not be declared")
        return None
