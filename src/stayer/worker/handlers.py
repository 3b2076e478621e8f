"""What a worker runs for a task: the argv, by the kind of task it is."""

from __future__ import annotations

import errno
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from msgspec import Struct

from stayer.core import model, patterns
from stayer.core.code import in_force, installs, prepares
from stayer.core.errors import BadConfig
from stayer.core.extras import how_to_install
from stayer.core.model import Task
from stayer.core.ordering.lanes import TRACE, find_refused_variables, handles_lane, lane_of
from stayer.core.refused_tasks import list_some, no_handler, other_queue
from stayer.core.submit.names import is_option, is_ours
from stayer.core.worker_model import Handles
from stayer.service import tracing
from stayer.task.stack_dump import STACK_SIGNAL
from stayer.worker import allowed_programs as programs
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.load_user_code import (
    RUNNER,
    AppDescription,
    Code,
    check_class,
    describe_app,
    inherited_environment,
)
from stayer.worker.run_layout import FILES_PART
from stayer.worker.task_code import FUNCTION_NAMES, CodeRules
from stayer.worker.task_images import ImageRules
from stayer.worker.task_user import TaskUser, TaskUsers, try_out

logger = logging.getLogger("stayer.worker")

_ID_PLACEHOLDER = "{id}"
"""Where the id of the task goes in the words of --exec, if not to their end."""
_HARMLESS_ID = re.compile(r"\w[\w.@:+,=-]*", re.ASCII)


class Handlers(Struct, frozen=True, kw_only=True):
    """The configured handlers: what may run here, and nothing else."""

    exec: tuple[str, ...] | None = None
    run: str | None = None
    arguments: tuple[str, ...] = ()
    """What `--exec` or `--run` is given besides the task."""
    app: str | None = None
    app_descriptions: dict[str | None, AppDescription] = {}
    """What the app says of itself, by the user who has loaded it (None: the worker's own). Others
    are still to be asked."""
    programs: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    """Patterns of what tasks may bring along."""
    environment: dict[str, str] = {}
    users: TaskUsers = TaskUsers()
    """Whose processes they are."""
    code: CodeRules | None = None
    """What may be installed for them; None: nothing."""
    images: ImageRules | None = None
    """In which images their commands may run; None: in none."""
    preload: bool = False
    """Fork their processes from one that has imported what they run."""

    @property
    def names(self) -> tuple[str, ...]:
        """The app's tasks, whoever says so, as patterns."""
        return tuple(dict.fromkeys(each for found in self._answers() for each in _patterns(found)))

    def _answers(self) -> list[AppDescription]:
        return list(self.app_descriptions.values())  # at once: another thread may add one

    @property
    def handles(self) -> Handles:
        """What it runs, in some queue."""
        return self._handles(self.names)

    def handles_in(self, queue: str) -> Handles:
        """Return what it runs in this one: which functions there are is for the user to say whose
        processes they are. Raises NotAllowed.
        """
        user = self.users.of(queue)
        description = self.app_descriptions.get(user.name if user else None)
        return self._handles(_patterns(description) if description else ())

    def may_serve(self, queue: str) -> bool:
        """Tell whether it is known as whom tasks of this queue would run."""
        try:
            self.users.of(queue)
        except NotAllowed:
            return False
        return True

    def in_turn(self, queues: Sequence[str]) -> Iterator[tuple[tuple[str, ...], Handles]]:
        """Yield what to reserve, in the order of these queues."""
        for handles, some in groupby(queues, self.handles_in):
            yield tuple(some), handles

    def code_of_app(self) -> dict[str | None, Code]:
        """Return what is to be loaded, for each user who is to say what the app is."""
        return self._code("--app", self.app) if self.app is not None else {}

    def code_of_class(self) -> dict[str | None, Code]:
        """Return what is to be loaded, for each user who is to run the class."""
        return self._code("--run", self.run, self.arguments) if self.run is not None else {}

    def _code(
        self, flag: str, target: str, arguments: tuple[str, ...] = ()
    ) -> dict[str | None, Code]:
        users: list[TaskUser | None] = [*self.users.all()] or [None]
        return {
            user.name if user else None: Code(flag, target, self.environment, user, arguments)
            for user in users
        }

    @property
    def default_code(self) -> model.Code | None:
        """What tasks run with that ask for nothing."""
        return self.code.default.code if self.code and self.code.default else None

    @property
    def _runs_functions_of_default(self) -> bool:
        """Whoever says just a default means its functions. With anything else to run, to call them
        by name would be more than that.
        """
        others = (self.exec, self.run, self.app, self.programs, self.images)
        return self.default_code is not None and (self.runs_anything or not any(others))

    def _handles(self, names: Sequence[str]) -> Handles:
        runs_functions = self._runs_functions_of_default or (self.code and self.code.allowed)
        return Handles(
            plain=self.exec is not None or self.run is not None,
            names=(*names, *((FUNCTION_NAMES,) if runs_functions else ())),
            # Which program runs in an image is not for this machine to say.
            programs=(patterns.ANYTHING,)
            if self.images
            else programs.program_patterns(self.programs),
            variables=self.variables,
        )

    @property
    def runs_anything(self) -> bool:
        """Whoever may submit has a shell here."""
        return patterns.ANYTHING in self.programs

    def check(self, task: Task, queues: Collection[str]) -> None:
        """Raise NotAllowed if this worker, of these queues, was not told to run it. The store has
        looked already, but whoever can write to the store must not decide what runs here, nor as
        whom.
        """
        if task.queue not in queues:
            raise NotAllowed(other_queue(task))
        if not handles_lane(lane_of(task), self.handles_in(task.queue)):
            raise NotAllowed(no_handler(task))
        self._check_code(task)
        if ours := [name for name in task.env or () if is_ours(name)]:
            raise NotAllowed(f"it brings along {list_some(ours)}, which is for the worker to set")
        if refused := find_refused_variables(task, self.variables):
            several = "variables" if len(refused) > 1 else "the variable"
            raise NotAllowed(f"it brings along {several} {list_some(refused)}: see --allow-env")
        if not task.command and task.name is None and self.exec and is_option(task.id):
            raise NotAllowed(f"its id {task.id!r} would be an option of {self.exec[0]}")
        if not task.command and task.name is None and self._puts_id_into_words(task):
            raise NotAllowed(f"its id {task.id!r} is not fit for a place within a word of --exec")

    def _check_code(self, task: Task) -> None:
        if task.code is not None and task.code.image is not None:
            if self.images is None:
                raise NotAllowed(
                    f"it runs in image {list_some([task.code.image])}, and this worker runs none: "
                    "see --allow-image, which needs podman"
                )
            self.images.check(task)
            return
        asked = in_force(task, self.default_code)
        says_where = prepares(task.code) or self._runs_functions_of_default
        if self._is_function(task) and not says_where:
            raise NotAllowed(f"{no_handler(task)}, unless its code says where that is")
        if not installs(asked):
            return
        if self.code is None:
            raise NotAllowed(
                "it needs code to be installed, and this worker installs none: see --allow-code, "
                f"which needs uv ({how_to_install('code')})"
            )
        self.code.check(task)

    def _is_function(self, task: Task) -> bool:
        """It names a function in a module, and no app here has one that is called so."""
        if task.name is None or task.command:
            return False
        user = self.users.of(task.queue)
        app = self.app_descriptions.get(user.name if user else None)
        return app is None or not patterns.any_matches(task.name, _patterns(app))

    def _puts_id_into_words(self, task: Task) -> bool:
        """Return whether the id would be put into a word where it could mean something: to a shell,
        or in a path.
        """
        inside = any(
            _ID_PLACEHOLDER in word and word != _ID_PLACEHOLDER for word in self.exec or ()
        )
        return inside and not _HARMLESS_ID.fullmatch(task.id)

    def process(self, task: Task, queues: Collection[str]) -> dict[str, Any]:
        """Return what its keeper is to execute: the words, the file that the first one means (None:
        to be looked for in the task's own PATH), and where. Raises NotAllowed, Missing, and
        OSError.
        """
        self.check(task, queues)
        if self.images is not None and task.code is not None and task.code.image is not None:
            return self.images.process(task)
        process = self._process(task)
        argv = process["argv"]
        is_runner = not task.command and tuple(argv[: len(RUNNER)]) == RUNNER
        if self.code is None or not installs(self.code.code_of(task)):
            if self.preload and is_runner:
                process["preload"] = _zygote_name(argv[len(RUNNER)], self.users.of(task.queue))
            return process
        return self.code.process(task, process, tuple(argv[len(RUNNER) :]) if is_runner else None)

    def zygotes(self) -> dict[str, Any]:
        """Return the processes that are to import code and fork tasks, as their nursery reads
        them.
        """
        if not self.preload:
            return {}
        wanted = {"app": self.code_of_app(), "class": self.code_of_class()}
        return {
            _zygote_name(kind, code.user): {
                "argv": [*RUNNER, "preload", kind, code.target, *code.arguments],
                "env": code.variables(),
                "cwd": os.getcwd(),
                "user": code.user and code.user.for_keeper(),
            }
            for kind, codes in wanted.items()
            for code in codes.values()
        }

    def _process(self, task: Task) -> dict[str, Any]:
        if not task.command:
            argv = self._own(task)
            return {"argv": argv, "program": self.find_program(argv[0]), "cwd": os.getcwd()}
        cwd = _from_here(task.cwd or "")
        program, argv = None, list(task.command)
        if not self.runs_anything:
            program, argv[0] = programs.resolve_program(argv[0], self.programs, self.path, cwd)
        return {"argv": argv, "program": program, "cwd": cwd}

    @property
    def path(self) -> str:
        """Where programs are looked for."""
        return self.environment.get("PATH") or os.environ.get("PATH") or os.defpath

    def find_program(self, word: str) -> str:
        """Find a program of the worker's own; raises FileNotFoundError or PermissionError."""
        if "/" not in word:
            return programs.look_up(word, self.path)
        found = _from_here(word)
        if not programs.is_program(found):
            wrong = errno.EACCES if os.path.exists(found) else errno.ENOENT
            raise OSError(wrong, os.strerror(wrong), word)
        return found

    def _own(self, task: Task) -> list[str]:
        if self._is_function(task):
            return [*RUNNER, "function", task.name or ""]
        if task.name is not None:
            return [*RUNNER, "app", self.app or ""]
        if self.exec is None:
            return [*RUNNER, "class", self.run or "", *self.arguments]
        if any(_ID_PLACEHOLDER in word for word in self.exec):
            return [word.replace(_ID_PLACEHOLDER, task.id) for word in self.exec]
        return [*self.exec, task.id]

    def stack_signal(self, task: Task) -> int | None:
        """Return what makes the process write its stack to the log; None if it is no runner of
        ours.
        """
        is_python = task.command is None and (task.name is not None or self.exec is None)
        return STACK_SIGNAL if is_python else None

    def env(self, task: Task, folder: Path) -> dict[str, str]:
        """Return the process's environment: the worker's, less what opens the store, and the
        interface.
        """
        return {**self._inherited(task), **self.env_of_task(task, folder)}

    def env_of_preparation(self, task: Task, folder: Path) -> dict[str, str]:
        """Return the variables of a process that runs for the task before it, or around it: without
        those that the task brings along.
        """
        return {**self._inherited(task), **_interface(task, folder)}

    def env_of_task(self, task: Task, folder: Path) -> dict[str, str]:
        """Return those that are set for the task, and not inherited."""
        # A Python program keeps 8 kB of what it prints to a pipe to itself: its log would be empty
        # for hours.
        live = {"PYTHONUNBUFFERED": "1"} if task.command else {}
        return {**live, **self.environment, **self._brought_along(task), **_interface(task, folder)}

    def _inherited(self, task: Task) -> dict[str, str]:
        kept = (
            inherited_environment()
            if self.code is None
            else self.code.for_task(inherited_environment())
        )
        user = self.users.of(task.queue)
        return user.environment(kept) if user else kept

    def _brought_along(self, task: Task) -> dict[str, str]:
        """Return the variables of the task that it may set; `check` has refused all but
        a trace's.
        """
        brought = {name: value for name, value in (task.env or {}).items() if not is_ours(name)}
        allowed = {
            name: value
            for name, value in brought.items()
            if name not in TRACE or patterns.any_matches(name, self.variables)
        }
        return {**tracing.read_context(*map(brought.get, TRACE)), **allowed}

    def try_out(self, user: TaskUser, runs: Path) -> None:
        """See whether this user can run what is configured; raises BadConfig."""
        program = self.find_program(self.exec[0]) if self.exec else None
        try_out(user, runs, program)


def _interface(task: Task, folder: Path) -> dict[str, str]:
    """Return the variables that tell a task where its files are."""
    found = {
        "STAYER_TASK_ID": task.id,
        "STAYER_ATTEMPT": str(task.attempt),
        "STAYER_DIR": str(folder),
        "STAYER_REPORT": str(folder / "report"),
        "STAYER_CHECKPOINT": str(folder / "checkpoint"),
        "STAYER_RESULT": str(folder / "result"),
    }
    if task.upstreams:
        found["STAYER_INPUTS"] = str(folder / "inputs")
    if task.code is not None and task.code.files:
        found["STAYER_FILES"] = str(folder / FILES_PART)
    return found


def _patterns(app: AppDescription) -> tuple[str, ...]:
    """Return patterns of what an app runs."""
    return (*map(patterns.literal, app.names), *app.routes)


def _zygote_name(kind: str, user: TaskUser | None) -> str:
    return f"{kind} {user.name}" if user else kind


def _from_here(path: str) -> str:
    """Resolve a path as the kernel sees it, for which `..` after a link is not the folder of the
    link.
    """
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path).rstrip("/") or "/"


def configure(
    *,
    exec: str | None = None,
    run: str | None = None,
    arguments: tuple[str, ...] = (),
    app: str | None = None,
    allow_commands: bool = False,
    allow_command: tuple[str, ...] = (),
    allow_env: tuple[str, ...] = (),
    environment: dict[str, str] | None = None,
    users: TaskUsers | None = None,
    code: CodeRules | None = None,
    images: ImageRules | None = None,
    preload: bool = False,
) -> Handlers:
    """Handlers from flags, checked: what can't work is said before any task is taken."""
    if exec is not None and run is not None:
        raise BadConfig("--exec and --run both take tasks without a name: give one of them")
    if not (exec or run or app or allow_commands or allow_command or code or images):
        raise BadConfig(
            "a worker needs something to run: give --exec CMD, --run FILE, --app MODULE, "
            "--allow-commands for the commands that tasks bring along, --git URL for functions of "
            "a repository, --allow-code for those of any that tasks name, or --allow-image for "
            "commands in containers"
        )
    if arguments and not (exec or run):
        raise BadConfig("arguments are for --exec CMD or --run FILE: give one of them, or no words")
    for pattern in allow_command:
        programs.check_pattern(pattern)
    handlers = Handlers(
        exec=(*_words(exec), *arguments) if exec else None,
        run=_check_run_file(run) if run else None,
        arguments=tuple(arguments) if run else (),
        app=app,
        programs=(patterns.ANYTHING,) if allow_commands else allow_command,
        variables=(patterns.ANYTHING,) if allow_commands else allow_env,
        environment=environment or {},
        users=users or TaskUsers(),
        code=code,
        images=images,
        preload=preload,
    )
    if preload and not (run or app):
        raise BadConfig("--preload is for functions and classes: give --app MODULE or --run FILE")
    _try(handlers)
    return handlers


def _try(handlers: Handlers) -> None:
    """Look at all that is to run, and hear what an app says of itself: a worker whose own program
    is missing would only get in the way of its tasks.
    """
    if handlers.exec is not None:
        try:
            handlers.find_program(handlers.exec[0])
        except OSError as error:
            raise BadConfig(f"--exec: can't run {handlers.exec[0]}: {error.strerror}") from None
    for code in handlers.code_of_class().values():
        _mind_threads(handlers, code, check_class(code))
    for user, code in handlers.code_of_app().items():
        description = describe_app(code)
        if description is not None:
            handlers.app_descriptions[user] = description
            _mind_threads(handlers, code, description.threads)


def _mind_threads(handlers: Handlers, code: Code, threads: int) -> None:
    if handlers.preload and threads > 1:
        logger.warning(
            "--preload: importing %s starts %d threads, which a fork would lose: its tasks are "
            "started without it. Let it start them when a task begins",
            code.target, threads - 1,
        )  # fmt: skip


def _words(exec: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(exec))
    except ValueError as error:
        text = f"{error}"
        raise BadConfig(f"--exec {exec}: {text[:1].lower()}{text[1:]}") from None
    if not words or not words[0]:
        raise BadConfig(f"--exec {exec!r}: give a command")
    if _ID_PLACEHOLDER in words[0]:
        raise BadConfig(f"--exec {exec}: the id of a task can't be the program")
    return words


def _check_run_file(run: str) -> str:
    path, _, name = run.partition(":")
    if not os.path.isfile(path):
        raise BadConfig(f"--run {run}: there is no file {path}")
    return f"{os.path.abspath(path)}:{name}" if name else os.path.abspath(path)
