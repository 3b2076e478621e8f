"""The worker's loop: each step a named call, none of which may end it.

A store that does not answer stops nothing that runs: what needs it is tried again later, outcomes
wait on disk, and only the fence takes a task away.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from stayer.core.errors import StayerError
from stayer.core.happenings import Note
from stayer.core.lifecycle import decide
from stayer.core.model import RUNNING, Report, Task
from stayer.core.version import __version__
from stayer.core.worker_model import Beat, Worker, WorkerOrder
from stayer.service.lease.heartbeat import Heartbeat, moment
from stayer.service.upkeep import due_work
from stayer.service.upkeep.queue_stats import Sampler
from stayer.store import Store
from stayer.worker.attempt import HeldAttempt
from stayer.worker.attempts import HeldAttempts, by_queue
from stayer.worker.base import TICK_S, BeatingWorker
from stayer.worker.cleanup import clear_leftovers
from stayer.worker.commit_outcomes import commit_notes, refresh, settle_outcomes, settle_starts
from stayer.worker.freeze_before_sleep import SleepWatcher
from stayer.worker.freeze_log import FreezeLogger
from stayer.worker.handlers import Handlers
from stayer.worker.keeper_orders import carry_out
from stayer.worker.launch import Starter
from stayer.worker.lease_files import Leases
from stayer.worker.logs import KeptLogs
from stayer.worker.nursery import Nursery
from stayer.worker.options import Options
from stayer.worker.orphans import declare_end_for_keeper, is_over, take_back_unbegun
from stayer.worker.outcome import node_trouble
from stayer.worker.preparation import Preparations
from stayer.worker.reconcile import reconcile
from stayer.worker.retention import Purger
from stayer.worker.state_directory import StateDirectory
from stayer.worker.store_listener import StoreListener

logger = logging.getLogger("stayer.worker")

_START_POLL_S, _HEARD_START_POLL_S = 0.003, 0.1
"""How often to look while a task has been reserved, but its process does not run yet: where nobody
tells when it does, and where the kernel does.
"""
_PREPARATION_POLL_S = 0.05
"""How often to look while the code of a task is being prepared."""
_THAW_RETRY_S = 0.5
"""When to compare with the store again while something may be frozen."""
_TIDY_INTERVAL_S = 600.0


class WorkerLoop(BeatingWorker):
    """One worker, from its start to its leave."""

    def __init__(
        self,
        store: Store,
        state: StateDirectory,
        handlers: Handlers,
        options: Options,
        reload: Callable[[], Options] | None = None,
    ) -> None:
        """`reload` reads the settings again, when USR2 asks for it."""
        super().__init__(store, state, options.heartbeat)
        self._handlers = handlers
        self._given = self._options = options
        """As flags and settings say, and with what an operator has changed since."""
        self._order: WorkerOrder | None = None
        self._reload = reload
        self._nursery = Nursery(state.path)
        self._leases = Leases(store, state, options.lease)
        self._starter = Starter(store, state, handlers, self._nursery, self._leases)
        self._preparations = Preparations(store, handlers.code)
        self._logs = KeptLogs(state.path)
        self._sampler = Sampler(store)
        self._listener: StoreListener | None = None
        self._holdings = HeldAttempts(state, self._bell)
        self._frozen_for_sleep: set[tuple[str, int]] = set()
        self._freeze_log = FreezeLogger(self._holdings, self._leases, self._frozen_for_sleep)
        self._sleep_watcher = SleepWatcher(self._bell.ring, self._all_are_frozen)
        self._keeps = options.fence == "keep"
        self._stop_within = 0.0
        self._store_is_away = False
        self._next_due = 0.0
        self._next_reconcile = 0.0
        self._next_thaw = 0.0
        self._purger = Purger(store, options.retention)
        self._next_log_tidying = 0.0
        self._turn = 0
        self._has_changed = self._due_changed = True
        self._removals: list[Callable[[], None]] = []
        self._runs_more = False

    def look_again(self) -> None:
        """Note that what can be run here has changed; to be called from any thread."""
        self._runs_more = True
        self._on_noise()

    def _once(self) -> None:
        self._handle_signals()
        self._carry_out_worker_orders()
        self._announce_new_handlers()
        self._reconcile_after_sleep()
        self._stop_before_sleep()
        self._start_anew_if_lease_lost()
        self._stop_what_runs()
        self._carry_out_orders()
        self._see_to_preparations()
        self._mark_started()
        self._show_to_watchers()
        self._send_urgent_news()
        self._commit_notes()
        self._collect_outcomes()
        self._reconcile()
        self._reserve_into_free_slots()
        self._remove_what_has_ended()
        self._look_at_the_clock()
        self._tidy_up()

    # Beginning and end

    def _begin(self) -> None:
        self._signals.listen(self._bell)
        if self._options.cgroup:
            self._starter.use_cgroups()
        self._nursery.retire_others()
        self._nursery.preload(self._handlers.zygotes())
        kept = [run for run in self._state.runs() if run.has_keeper()]
        if kept:
            # They were told of the old lease, look at it seldom, and their timers are set by it:
            # a shorter one holds from the next start without them on.
            self._leases.length = max(self._leases.length, self._state.lease_length())
        # Some may have been told to run on without a lease.
        self._keeps = self._keeps or any(run.fence == "keep" for run in kept)
        self._freeze_log.start()
        self._sleep_watcher.start()
        self._start_heartbeat()
        for run in self._state.runs():
            held = self._holdings.adopt(run)
            if held is not None:
                self._try(lambda held=held: self._take_up(held))  # type: ignore[misc]
        self._leases.write(self._holdings.queues())

    def _take_up(self, held: HeldAttempt) -> None:
        if held.run.prepared is not None:
            self._preparations.hold(held)
        if refresh(self._store, held) and not held.run.has_ended():
            adopted = Note("adopted", f"by process {os.getpid()} of its worker")
            self._store.commit([decide(held.task, adopted)])

    def _register(self) -> Heartbeat:
        self._listen()
        return super()._register()

    def _listen(self) -> None:
        """Listen for tasks of the queues that it takes from now."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._listener = StoreListener(
            self._store, self._state.worker_id, self._options.queues, self._on_noise
        )

    def _describe_worker(self) -> Worker:
        return Worker(
            id=self._state.worker_id,
            node=self._state.node,
            pid=os.getpid(),
            queues=self._options.queues,
            slots=self._options.slots,
            version=__version__,
            draining=self._draining,
            lease=self._leases.length,
            keeps=self._keeps,
            handles=self._handlers.handles,
        )

    def _is_finished(self) -> bool:
        return (
            self._leaving
            or self._store_is_away
            or ((self._stopping or self._draining) and not self._holdings)
        )

    def _end(self) -> None:
        self._freeze_log.stop()
        if self._leaving:
            logger.info(
                "leaving %s running for the next worker", self._holdings.describe_number("task")
            )
            self._abandon_heartbeat()
        elif self._heartbeat is not None or self._store_is_away:
            self._nursery.retire()
            if not self._stopping:
                self._take_leave()
            elif self._store_is_away or not self._takes_leave_in_time():
                left = (
                    self._holdings.describe_number("outcome") if len(self._holdings) else "its name"
                )
                self._leave_uncommitted(left)
        self._state.close()

    def _has_ended(self, task: Task) -> bool:
        return is_over(self._state.run_for(task))

    # Steps

    def _handle_signals(self) -> None:
        for number in self._signals.take_all():
            if number == signal.SIGHUP:
                self._leaving = True
            elif number == signal.SIGUSR1:
                self._draining = True
                self._send_description()
            elif number == signal.SIGUSR2:
                self._take_new_options()
            elif number == signal.SIGQUIT or (number == signal.SIGINT and self._stopping):
                self._stop_all(0.0)
                self._patience.hurries = True
            else:
                self._stop_all(self._options.grace)

    def _announce_new_handlers(self) -> None:
        if self._runs_more:
            self._runs_more = False
            self._send_description()

    def _stop_all(self, grace: float) -> None:
        self._stop_within = min(self._stop_within, grace) if self._stopping else grace
        if len(self._holdings):
            logger.info("%s", self._holdings.what_stops(grace))
        self._stopping = True
        self._patience.be_brief()

    def _stop_what_runs(self) -> None:
        """Ask each to stop, each time round: what was adopted later, or could not be asked, is
        asked then.
        """
        if self._stopping:
            self._holdings.stop(self._stop_within)

    def _take_new_options(self) -> None:
        """Slots and limits; what the store and the keepers have been told of us stays."""
        if self._reload is None:
            return
        try:
            new = self._reload()
        except StayerError as error:
            logger.error("the settings can't be used, going on with the old ones: %s", error)
            return
        old = self._given
        self._given = replace(
            new, queues=old.queues, evenly=old.evenly, lease=old.lease, fence=old.fence
        )
        self._use_options()
        slots = self._options.slots
        logger.info("took new settings: %d slot%s", slots, "" if slots == 1 else "s")

    def _change(self, order: WorkerOrder) -> None:
        """Take from other queues, or run more or fewer at once; what runs goes on."""
        self._order = order
        queues = self._options.queues
        self._use_options()
        if self._options.queues != queues:
            self._try(self._listen)
        logger.info(
            "an operator has changed this worker: it takes tasks from %s, %d at once",
            ", ".join(self._options.queues), self._options.slots,
        )  # fmt: skip

    def _use_options(self) -> None:
        options = self._given.changed_by(self._order)
        if unfit := [queue for queue in options.queues if not self._handlers.may_serve(queue)]:
            logger.warning(
                "an operator wants tasks of %s to be taken here: no --task-user says as whom",
                ", ".join(unfit),
            )
            fit = tuple(queue for queue in options.queues if queue not in unfit)
            options = replace(options, queues=fit or self._options.queues)
        self._options = options
        self._has_changed = True
        self._send_description()

    def _start_anew_if_lease_lost(self) -> None:
        """If the lease is lost, kill what runs, and begin again under a new name."""
        if not self._lease_lost:
            return
        logger.error("worker %s lost its lease: its tasks are killed", self._state.worker_id)
        self._state.void_lease()
        self._holdings.give_up()
        self._abandon_heartbeat()
        self._state.new_identity()
        self._leases.forget()
        self._lease_lost = False
        self._start_heartbeat()

    def _stop_before_sleep(self) -> None:
        """Freeze all tasks that can be frozen before the machine sleeps, once for each sleep."""
        if not self._sleep_watcher.is_near:
            self._frozen_for_sleep.clear()
            return
        for held in self._holdings.ours():
            if held.key not in self._frozen_for_sleep:
                self._frozen_for_sleep.add(held.key)  # before it is, for those who tell of it
                if not held.ask(freeze=moment()):
                    self._frozen_for_sleep.remove(held.key)

    def _all_are_frozen(self) -> bool:
        """Return whether all that can and should stand still do."""
        return all(
            held.is_fenced() or held.run.has_ended() or held.run.fence in ("kill", "keep")
            for held in self._holdings.ours()
        )

    def _carry_out_orders(self) -> None:
        while self._orders:
            orders = self._orders.popleft()
            held = self._holdings.get((orders.id, orders.attempt))
            if held is None:
                continue
            last = carry_out(held, orders.orders)
            if self._heartbeat is not None:
                report = Report(id=orders.id, attempt=orders.attempt, acknowledged=last)
                self._heartbeat.report(report)

    def _see_to_preparations(self) -> None:
        """Answer those whose code is being prepared."""
        for held in self._holdings:
            if held.task.state == "reserved" and held.known and held.is_preparing():
                self._try(lambda held=held: self._preparations.look(held), held.task.queue)  # type: ignore[misc]

    def _mark_started(self) -> None:
        """Tell the store of processes that have come to run."""
        fresh: list[tuple[HeldAttempt, int]] = []
        for held in self._holdings:
            if held.task.state == "reserved" and not held.run.has_ended():
                running = held.run.process_status
                if running is not None:
                    self._holdings.await_end(held)
                    if not held.is_preparing():
                        fresh.append((held, running["pid"]))
                elif held.is_overdue():
                    self._nursery.start(held.run.folder)  # the line got lost with an old nursery
        for queue, some in by_queue(fresh, lambda each: each[0]).items():
            self._try(lambda some=some: self._commit_starts(some), queue)  # type: ignore[misc]

    def _commit_starts(self, fresh: list[tuple[HeldAttempt, int]]) -> None:
        self._starter.reset_backoff()
        for held, _ in fresh:
            if held.run.prepares:
                self._preparations.begins(held)
                commit_notes(self._store, held)
        if not settle_starts(self._store, fresh):
            self._next_reconcile = 0.0

    def _show_to_watchers(self) -> None:
        if self._heartbeat is not None and self._heartbeat.watched:
            self._holdings.show()

    def _send_urgent_news(self) -> None:
        if self._heartbeat is not None and self._holdings.have_urgent_news():
            self._try(self._heartbeat.beat_now)

    def _commit_notes(self) -> None:
        """Commit what happened to tasks that run on."""
        for held in self._holdings:
            held.note_freeze()
            if held.unsent_notes and held.task.state in RUNNING and held.known:
                self._try(lambda held=held: commit_notes(self._store, held), held.task.queue)  # type: ignore[misc]

    def _collect_outcomes(self) -> None:
        for held in self._holdings:
            take_back_unbegun(held)
            declare_end_for_keeper(held)
        ended = [held for held in self._holdings if held.run.has_ended()]
        for queue, some in by_queue(ended, lambda held: held).items():
            is_committed = self._try(lambda some=some: self._commit_outcomes(some), queue)  # type: ignore[misc]
            if not is_committed and all(held.run.has_ended() for held in self._holdings):
                # Outcomes are safe on the disk: the next worker tells of them.
                self._store_is_away = self._has_waited_long_enough(
                    self._holdings.describe_number("outcome")
                )

    def _commit_outcomes(self, ended: list[HeldAttempt]) -> None:
        # The last of log and checkpoint come before the end; so does what befell it just before.
        mine = [held for held in ended if held.task.worker == self._state.worker_id]
        for held in mine:
            held.note_freeze()
        if self._heartbeat is not None and any(held.has_news() for held in mine):
            before, left = 0, 1
            while left and left != before:  # one that can't be read must not keep us here
                before = sum(held.count_unsent_bytes() for held in mine)
                self._heartbeat.beat_now()
                left = sum(held.count_unsent_bytes() for held in mine)
        for held in mine:
            if held.unsent_notes and held.task.state in RUNNING and held.known:
                commit_notes(self._store, held)
        for held in settle_outcomes(self._store, ended):
            exit, error = held.run.exit or {}, held.run.error()
            own, loads = held.is_own, held.loads_code
            if held.is_fresh and node_trouble(exit, error, own=own, loads=loads):
                self._starter.rest(held.task)
            self._forget(held)

    def _forget(self, held: HeldAttempt) -> None:
        self._holdings.remove(held)
        self._preparations.forget(held)
        self._logs.keep(held)
        self._removals.append(held.run.put_away())
        self._has_changed = self._due_changed = True

    def _reconcile(self) -> None:
        """Compare what runs here with what the store says we hold."""
        if self._sleep_watcher.is_near:
            return  # what stands still is to do so until the machine has slept
        now = moment()
        may_be_frozen = now < self._leases.frozen_until and len(self._holdings) > 0
        look_now = may_be_frozen and now >= self._next_thaw
        fenced = look_now or len(self._holdings.list_fenced()) > 0
        if now < self._next_reconcile and not fenced:
            return
        if self._heartbeat is None or not self._heartbeat.is_current():
            return
        # A beat that waited for the store renews the lease by little: what goes on would stand
        # still again at once.
        if fenced and not self._heartbeat.is_fresh() and not self._try(self._heartbeat.beat_now):
            return
        if self._try(
            lambda: reconcile(
                self._store,
                self._state,
                self._holdings,
                self._options.queues,
                may_be_frozen=may_be_frozen,
            )
        ):
            self._next_reconcile = now + self._leases.length
            self._next_thaw = now + _THAW_RETRY_S

    def _look_at_the_clock(self) -> None:
        """See to what is due, when it is, or when there may be something that is due sooner. After
        the reserve: what a rate has kept from us begins at a moment that can be told.
        """
        time_came = moment() >= self._next_due
        if self._due_changed or time_came:
            self._due_changed = False
            if not self._try(self._promote_due):
                self._due_changed = True
            elif time_came:
                self._on_noise()

    def _promote_due(self) -> None:
        following = due_work.elapse(self._store)
        ahead = 60.0 if following is None else max(0.0, following - self._store.now())
        self._next_due = moment() + min(ahead, 60.0)

    def _reserve_into_free_slots(self) -> None:
        free = self._options.slots - len(self._holdings)
        if free <= 0 or not self._has_changed or self._stopping or self._draining or self._leaving:
            return
        if self._sleep_watcher.is_near or self._starter.rests or self._holdings.has_dying():
            return  # what was taken from us may be given to us again, and must not run twice
        self._has_changed = False
        if not self._try(lambda: self._reserve(free)):
            self._has_changed = True
            self._next_reconcile = 0.0  # the answer may have got lost

    def _reserve(self, free: int) -> None:
        queues = self._options.queues
        if self._options.evenly:
            self._turn = (self._turn + 1) % len(queues)
            queues = queues[self._turn :] + queues[: self._turn]
        for some, handles in self._handlers.in_turn(queues):
            tasks = self._store.reserve(self._state.worker_id, some, free, handles)
            logger.debug("reserved %d tasks of %s, %d at most", len(tasks), ", ".join(some), free)
            free -= len(tasks)
            for task in tasks:
                self._starter.start(task, self._options, self._holdings)
            if free <= 0:
                break
        if free <= 0:  # else what stirred meanwhile must not be forgotten
            self._has_changed = True
        else:
            self._due_changed = True  # a rate may tell when there will be more

    def _remove_what_has_ended(self) -> None:
        """After the reserve: the next tasks begin meanwhile."""
        while self._removals:
            self._removals.pop()()

    def _tidy_up(self) -> None:
        """Old tasks are forgotten, with the logs that stayed here; what queues did is counted."""
        if not self._sampler.remaining_s:
            self._try(self._sampler.look)
        if self._purger.is_due():
            self._try(self._purger.step)
        if moment() >= self._next_log_tidying:
            self._next_log_tidying = moment() + _TIDY_INTERVAL_S
            self._tidy(lambda: self._logs.remove_purged(self._store))
            self._tidy(lambda: clear_leftovers(self._store, self._state, self._holdings))

    def _tidy(self, step: Callable[[], object]) -> None:
        """Tidy up. What can't be removed must not keep other things from being removed."""
        try:
            self._try(step)
        except OSError:
            logger.exception("the state directory could not be tidied up")

    def _wait(self) -> None:
        timeout = min(TICK_S, max(0.0, self._next_due - moment(), self._patience.remaining_s()))
        if self._purger.has_more:
            timeout = 0.0
        reserved = [held for held in self._holdings if held.task.state == "reserved"]
        starting = [held for held in reserved if not held.is_preparing()]
        if starting:
            all_heard = all(held.is_heard for held in starting)
            timeout = min(timeout, _HEARD_START_POLL_S if all_heard else _START_POLL_S)
        elif reserved:
            timeout = min(timeout, _PREPARATION_POLL_S)
        self._bell.sleep(timeout)

    # Between the threads

    def _on_noise(self) -> None:
        self._has_changed = self._due_changed = True
        self._bell.ring()

    def _gather(self) -> Sequence[Report]:
        return self._holdings.gather()

    def _on_beat(self, good_until: float, answer: Beat) -> None:
        self._leases.renew(good_until, answer.proven, self._holdings.queues())
        self._holdings.mark_delivered(answer.undelivered)
        if any(held.unsent_notes for held in self._holdings):
            self._bell.ring()
