"""Bringing a reserved task to run: its run directory, then a keeper."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from stayer.core.errors import BadInput, NotHeld, StoreUnreachable
from stayer.core.happenings import Fail, Happening, Interrupt, Snooze
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, Task
from stayer.core.refused_tasks import Refusals
from stayer.core.units import format_duration
from stayer.keeper.cgroup import delegated
from stayer.service import sent_files, upstream_results
from stayer.service.control import tasks as control
from stayer.store import Store
from stayer.worker.allowed_programs import NotAllowed, ProgramMissing
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts
from stayer.worker.backoff import Backoff
from stayer.worker.handlers import Handlers
from stayer.worker.lease_files import Leases
from stayer.worker.nursery import Nursery, NurseryGone
from stayer.worker.options import Options
from stayer.worker.outcome import NOT_FOUND
from stayer.worker.preparation import with_known_pin
from stayer.worker.run_directory import Run
from stayer.worker.run_layout import FILES_PART
from stayer.worker.state_directory import StateDirectory
from stayer.worker.task_images import container_name, in_container

logger = logging.getLogger("stayer.worker")

_INPUTS_RETRY_S = 30.0
"""When to try again to begin a task whose inputs can't be reached."""
_RUN_LIMITS = ("time", "silence")
_PREPARATION_FACTOR = 2.0
"""So many times as long as it may take a preparation has, as the keeper sees it: it may wait
for another one of the same code, and for answers.
"""
_LONGEST_REST_S = 60.0
"""How long a node that can't start tasks takes none, at most."""


class Starter:
    """What it takes to start a task here."""

    def __init__(
        self,
        store: Store,
        state: StateDirectory,
        handlers: Handlers,
        nursery: Nursery,
        leases: Leases,
    ) -> None:
        self._store = store
        self._state = state
        self._leases = leases
        self._handlers = handlers
        self._nursery = nursery
        self._cgroup: str | None = None
        self._backoff = Backoff(longest=_LONGEST_REST_S)
        self._refusals = Refusals()

    @property
    def rests(self) -> bool:
        """This node could not start a task just now, and is to take no more for a while."""
        return self._backoff.remaining_s() > 0

    def rest(self, task: Task) -> None:
        """Take no more for a while: handed back, it would come to us again at once. Longer each
        time, until one has begun.
        """
        if not self.rests:
            pause = self._backoff.next_pause()
            self._backoff.rest(pause)
            text = "task %s could not be started here: this worker takes no more for %s"
            logger.error(text, task.id, format_duration(pause))

    def reset_backoff(self) -> None:
        """Note that one has begun."""
        self._backoff.reset()

    def use_cgroups(self) -> None:
        """Give each task one, if this worker may make any."""
        self._cgroup = delegated()
        if self._cgroup is None:
            logger.warning("no cgroup was delegated to this worker: its tasks get none")

    def start(self, task: Task, options: Options, holdings: HeldAttempts) -> None:
        """Start a task; if this node can't, hand it back."""
        run = self._state.run_for(task)
        try:
            task = with_known_pin(self._store, task, self._handlers.default_code)
            process = self._process(task, options.queues)
            if process is None:
                return
            code = process.pop("code", None)
            saved = self._store.checkpoint(task.id) if task.attempt > 1 else None
            given = (
                upstream_results.results_json(upstream_results.of(self._store, task))
                if task.upstreams
                else None
            )
            files = sent_files.fetch(self._store, task.code)
            spec = process | self._spec(task, run, options)
            if files and _runs_among_its_files(task):
                spec["cwd"] = str(run.task_folder / FILES_PART)
            if code is not None:
                code |= self._give_code(task, spec, run)
            run.prepare(task, spec, saved.data if saved else None, given, code, files)
            held = HeldAttempt(task, run, fresh=True)
            holdings.await_start(held)
            self._nursery.start(run.folder)
        except StoreUnreachable as error:
            # The results that it needs may be in a part of the store that is away: others begin.
            logger.warning("task %s can't begin yet: %s", task.id, error)
            self._store.commit([decide(task, Snooze(_INPUTS_RETRY_S, "what it needs is away"))])
        except sent_files.FileGone as error:
            fault = Fault("Environment", str(error))
            self._settle(task, Fail(fault, final=True, ending="environment"))
        except BadInput as error:  # what the store says of it makes no sense
            fault = Fault(type(error).__name__, str(error))
            self._store.commit([decide(task, Fail(fault, final=True))])
        except (OSError, NurseryGone) as error:
            logger.error("task %s can't be started here: %s", task.id, error)
            started = holdings.get((task.id, task.attempt))
            if started is not None:
                holdings.remove(started)
            self.rest(task)
            if self._void(run):
                self._store.commit([decide(task, Interrupt(f"can't be started here: {error}"))])
                run.remove()

    def _give_code(self, task: Task, spec: dict[str, Any], run: Run) -> dict[str, Any]:
        """Let the keeper start what prepares the code: with variables that are not for the task,
        and with the task's own limits of time only when that is done.
        """
        handlers = self._handlers
        is_image = task.code is not None and task.code.image is not None
        rules = handlers.images if is_image else handlers.code
        assert rules is not None
        folder = str(rules.folder_of(handlers.users.of(task.queue)))
        limits = spec["limits"]
        spec["later_limits"] = {name: limits.pop(name) for name in _RUN_LIMITS if name in limits}
        if (time_limit := spec["later_limits"].get("time")) is not None:
            # What says that the code is there is a file of the task, which may say anything else.
            limits["time"] = time_limit + _PREPARATION_FACTOR * rules.time_limit
        spec["code_folder"] = folder
        cwd = {"cwd": spec["cwd"]} if _runs_among_its_files(task) else {}
        if is_image:
            return self._give_image(task, spec, run) | cwd
        env, spec["env"] = spec["env"], spec["env"] | rules.variables
        return {"env": env, "folder": folder, **cwd}

    def _give_image(self, task: Task, spec: dict[str, Any], run: Run) -> dict[str, Any]:
        """Let podman run with the variables of the worker alone, and the container with those that
        are set for the task.
        """
        rules = self._handlers.images
        assert rules is not None
        folder = run.task_folder
        inside, devices = in_container(self._handlers.env_of_task(task, folder), spec["env"])
        spec["env"] = self._handlers.env_of_preparation(task, folder) | rules.variables
        spec["cwd"] = "/"
        container = container_name(task, run.folder)
        spec["at_removal"] = rules.removal(container)
        return {"env": inside, "devices": devices, "container": container}

    def _process(self, task: Task, queues: Collection[str]) -> dict[str, Any] | None:
        """Return what to execute; None if that is settled otherwise. Called before anything of it
        is written.
        """
        try:
            return self._handlers.process(task, queues)
        except NotAllowed as error:
            if self._refusals.is_new(task):
                logger.warning("task %s is refused: %s", task.id, error)
            self._settle(task, self._refusals.snooze(task, str(error)))
        except ProgramMissing as error:
            if task.command is None:
                raise  # what this worker was told to run: that is no fault of the task
            why = f"it could not be started: can't run {task.command[0]}: {error.strerror}"
            self._settle(task, Fail(Fault("NotStarted", why, exit_code=NOT_FOUND)))
        return None

    def _settle(self, task: Task, happening: Happening) -> None:
        """Settle it, also if an order came in between; what has been taken from us is not ours to
        settle.
        """
        with suppress(NotHeld):
            control.settle(self._store, task, happening)

    @staticmethod
    def _void(run: Run) -> bool:
        """Make sure that no keeper starts there, also where not even a folder could be made."""
        try:
            return run.void()
        except OSError:
            return not run.folder.exists()

    def _spec(self, task: Task, run: Run, options: Options) -> dict[str, object]:
        left = None if task.finish_before is None else task.finish_before - self._store.now()
        return {
            "env": self._handlers.env(task, run.task_folder),
            "lease": str(self._leases.path(task.queue)),
            "stack_signal": self._handlers.stack_signal(task),
            "cgroup": self._cgroup,
            "user": user.for_keeper() if (user := self._handlers.users.of(task.queue)) else None,
            **options.for_keeper(task.policy, left),
        }


def _runs_among_its_files(task: Task) -> bool:
    """Return whether its command runs where the files are that came along with it: it has no other
    place.
    """
    code = task.code
    return bool(code and code.files and not code.git and task.command and not task.cwd)
