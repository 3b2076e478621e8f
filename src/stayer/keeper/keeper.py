"""The keeper: parent of one task's process, and all that stands between it and trouble.

It starts the process, reaps whatever comes of it, holds the fence (freezes what it can no longer
prove it owns), minds the limits, climbs the ladder when the task must stop, and writes down how it
ended, once nothing is left of it. It knows no store and no worker: it reads and writes files of the
run directory (see `docs/reference/run-directory.md`) and hears SIGUSR1, "look now".
"""

from __future__ import annotations

import os
import sys
import time

from . import tree
from .accounts import Accounts, OutOfMemory
from .cgroup import Cgroup
from .cgroup import make as make_cgroup
from .folder import Lease, RunDirectory
from .grip import Grip
from .kernel import Alarm, DeathTimer, adopt_orphans, awake, moment, slept, wall
from .lean import TYPE_CHECKING, Content, loads, signal, signal_number
from .limits import Limits, as_limits
from .log import Log
from .orders import Orders
from .spawn import Birth, Lost, NoZygote, Refused

if TYPE_CHECKING:
    from .preloaded import PreloadedBirth
    from .zygotes import Zygotes

_HEARD = (signal.SIGCHLD, signal.SIGUSR1, signal.SIGIO, *Alarm.SIGNALS)
_HEARD_BY_THE_WAY = (signal.SIGCHLD, signal.SIGUSR1)
_LONGEST_SLEEP = 10.0
_FROZEN_LOOK = 2.0
_PAUSE_PATIENCE = 0.5
_A_NAP = 1.0
_SAMPLE = 5.0
_QUICK_SAMPLE = 1.0
_SPEW_SAMPLE = 0.1
_SAY = 60.0
_LEFTOVER_PATIENCE = 0.5
_LEFTOVER_GRACE = 5.0
_STACK_PAUSE = 1.0
_KILL_ROUND = 0.05
_MOUTHFUL = 0.03
_FAST = 16_384
_LAST_WORDS = 16
_STUCK_ROUND = 1.0
_WRITE_AGAIN = 5.0
_LOCK_PATIENCE = 1.0
_NEVER = float("-inf")
"""0 is no long time ago on a machine that has just booted."""
_DIED = 256
"""As wait status: it ended itself, by exit code 1."""
_FINAL = frozenset(("fence", "deadline", "timeout", "silent", "memory"))


class Keeper:
    """One task, from its start to the proof that nothing of it is left."""

    def __init__(self, folder: RunDirectory, spec: Content, zygotes: Zygotes | None = None) -> None:
        self._folder = folder
        self._zygotes = zygotes
        self._limits = Limits(folder, as_limits(spec.get("limits")))
        self._orders = Orders(folder)
        self._fence: str = spec.get("fence", "freeze")
        self._grace = float(spec.get("grace", 30.0))
        self._kill_interval = float(spec.get("kill_interval", 10.0))
        self._log = Log(folder, int(spec.get("log_cap") or 0))
        self._stack_signal: int | None = spec.get("stack_signal")
        self._lease = Lease(spec["lease"])
        self._timer, self._alarm = DeathTimer(), Alarm()
        self._slept, self._wall = slept(), wall()
        self._birth: Birth | PreloadedBirth | None = None
        self._cgroup: Cgroup | None = None
        self._grip = Grip(os.getpid(), None, None)
        self._accounts = Accounts(None, None)
        self._main = 0
        self._identity: dict[str, object] = {}
        self._status: int | None = None
        self._stopped: set[str] = set()
        self._fenced_since = self._fenced_until = self._slept_before = 0.0
        self._ask_after = self._renew_after = self._froze_for = 0.0
        self._stop: Content | None = None
        self._next_term = self._kill_from = 0.0
        self._leftovers = 0
        self._began, self._began_moment = time.time(), moment()
        self._next_sample, self._said = 0.0, _NEVER
        self._out_of_memory = OutOfMemory()

    def run(self, spec: Content) -> None:
        """Start the task, watch over it until nothing of it is left, record how it ended."""
        if not self._start(spec):
            return
        spec.clear()  # it holds the whole environment
        while self._alive():
            self._hear_orders()
            self._hold_the_fence()
            self._mind_the_limits()
            self._climb_the_ladder()
            self._stand_still_or_go_on()
            self._sample()
            self._listen_and_rest()
            self._limits.tick(bool(self._stopped))
        self._disarm()
        self._hear_its_last_words()
        failure = self._birth.failure() if self._birth else None
        self._record(**({"not_started": failure} if failure else {}))

    def give_up(self, error: BaseException) -> None:
        """Something is wrong with ourselves: the task must not outlive us."""
        while self._alive():
            self._grip.kill()
            signal.sigtimedwait((signal.SIGCHLD,), _KILL_ROUND)
        self._disarm()
        self._record(keeper_died=_DIED, note=repr(error))

    def _start(self, spec: Content) -> bool:
        """Start the main process, or record what kept it from starting."""
        if not self._lease.good:
            self._record(not_started="the lease was over before it began", node=True)
            return False
        if spec.get("isolate") not in (None, "pidns"):
            said = f"isolate = {spec['isolate']!r} is not known here; 'pidns' is"
            self._record(not_started=said, node=True)
            return False
        if self._fence != "keep":
            self._arm()
        name = f"stayer-{os.path.basename(self._folder.path)}-{os.getpid()}"
        self._cgroup = make_cgroup(spec.get("cgroup"), name, self._limits.memory)
        try:
            self._birth = self._give_birth(spec, self._log.open())
        except (OSError, Refused) as error:
            self._record(not_started=f"no process could be made: {error}", node=True)
            return False
        self._take_hold(self._birth)
        self._say()  # before it can do anything: whatever it does to us is known to be its doing
        self._birth.begin()
        failure = self._birth.failure()
        if failure is not None:
            while self._alive():
                signal.sigtimedwait((signal.SIGCHLD,), _KILL_ROUND)
            self._record(not_started=failure)
            return False
        return True

    def _give_birth(self, spec: Content, log: int) -> Birth | PreloadedBirth:
        """By a zygote if the task has one that can; else by ourselves."""
        wanted = None if spec.get("isolate") else spec.get("preload")
        zygote = self._zygotes and self._zygotes.ready(wanted)
        self._zygotes = None
        if zygote:
            from .preloaded import PreloadedBirth

            try:
                return PreloadedBirth(self._folder, spec, self._cgroup, log, zygote)
            except NoZygote as error:
                sys.stderr.write(f"{self._folder.path} is not forked by its zygote: {error}\n")
            finally:
                zygote.close()
        return Birth(self._folder, spec, self._cgroup, log)

    def _take_hold(self, birth: Birth | PreloadedBirth) -> None:
        if self._cgroup is not None and not self._cgroup.in_use:
            self._cgroup.remove()
            self._cgroup = None
        self._main = birth.pid
        if isinstance(birth, Birth):
            self._grip = Grip(os.getpid(), birth.first, self._cgroup)
            self._accounts = Accounts(birth.first, self._cgroup)
        else:
            self._grip = Grip(birth.first, None, self._cgroup)
            self._accounts = Accounts(None, self._cgroup, birth.first)
        self._identity = {
            "pid": self._main,
            "started": tree.started(self._main),
            "keeper": os.getpid(),
            "keeper_started": tree.started(os.getpid()),
            "boot": self._lease.boot,
            "cgroup": self._cgroup and self._cgroup.path,
            "first": birth.first,
            "first_started": birth.first and tree.started(birth.first),
        }

    # The loop's steps

    def _alive(self) -> bool:
        """Reap what has ended; False when there is nothing left to wait for: the proof."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return self._birth is not None and not self._is_over(self._birth)
            if self._status is None and self._birth is not None:
                self._status = self._birth.ending(pid, status)
            if pid == 0:
                return True

    def _is_over(self, birth: Birth | PreloadedBirth) -> bool:
        """Without children of our own."""
        over = birth.is_over()
        if birth.status is not None:
            self._status = birth.status
        if over and not isinstance(birth, Birth):
            self._accounts.reaped = birth.reaped
        return over

    def _hear_orders(self) -> None:
        if not self._folder.is_there():
            self._end_now("the run directory is gone")
            return
        orders = self._orders
        if not orders.read():
            return
        if orders.stop:
            grace = orders.stop["grace"]
            self._begin_to_stop(orders.stop["why"], self._grace if grace is None else grace)
        self._limits.change(orders.limits)
        if self._cgroup is not None and "memory" in orders.limits:
            self._cgroup.limit_memory(self._limits.memory)
        for name in orders.signals:
            # What stands still must not be woken by the way.
            if not (name == "SIGCONT" and self._stopped):
                self._send_to_main(signal_number(name))

    def _hold_the_fence(self) -> None:
        """Freeze or kill the task before the lease of its worker ends, and thaw it once renewed."""
        lease = self._lease
        renewed = lease.read()
        if lease.void:
            self._end_now("the worker was declared lost")
        elif self._fence == "keep":
            pass
        elif self._may_have_been_paused(renewed):
            # What was asked and answered before does not count: nobody knows how long ago it was.
            self._ask_after = self._renew_after = moment()
            self._wall = wall()
            if "fenced" not in self._stopped:
                self._freeze()
        elif "fenced" in self._stopped:
            if self._stop is not None or self._status is not None:
                return  # the ladder is at it, and what dies is not still
            if not self._grip.frozen():
                self._end_now("something woke the frozen task")
            elif self._fence == "kill" and not lease.good:
                self._end_now("the lease was over")
            elif self._is_proven():
                self._slept_before = self._last_nap()
                self._arm()
                self._release("fenced")
                if "fenced" in self._stopped:
                    self._disarm()
        elif lease.good:
            self._arm()
            if self._may_sleep() and not self._stand_still():
                self._grip.thaw()  # it may not be killed for that: the lease is good
        elif self._fence == "kill":
            self._end_now("the lease was over")
        else:
            self._freeze()

    def _may_have_been_paused(self, renewed: bool) -> bool:
        """The wall clock has jumped ahead since the lease was renewed. Somebody may have corrected
        it; or this machine stood still for a while without any clock of its own to tell: then the
        lease may be over though it looks good.
        """
        ahead = wall() - self._wall
        if ahead > self._lease.margin / 2:
            return True
        if renewed or ahead < 0.0:
            self._wall = wall()
        return False

    def _is_proven(self) -> bool:
        """The worker has asked, after it was frozen and under the very lease that is good now, and
        the task was still its own. Whatever the machine slept through in between, nobody can have
        been given the task since: the lease was good all the time.
        """
        lease, asked = self._lease, self._orders.thaw
        if not lease.good or lease.since < self._renew_after:
            return False
        return asked > self._ask_after and asked >= lease.since

    def _arm(self) -> None:
        """The lease is good: have the kernel see to it that we look when it ends, or end with it.

        It kills by the time that we are awake, for whoever sleeps past the end of the lease shall
        come back and ask; and it wakes us by the time that has gone by.
        """
        lease = self._lease
        self._slept = slept()
        self._timer.set(lease.kill_at - self._slept)
        self._alarm.set(lease.fence_at, lease.continue_at)

    def _disarm(self) -> None:
        self._timer.set(None)
        self._alarm.set(None)

    def _freeze(self) -> None:
        """Stop the task. There is time for it until the lease says; after a sleep, or if the lease
        may be over without looking so, as much as there always is.
        """
        lease = self._lease
        self._timer.set(min(lease.kill_at - self._slept, awake() + lease.margin * 0.5))
        if not self._stand_still():
            self._end_now("it could not be stopped" if lease.good else "the lease was over")

    def _stand_still(self) -> bool:
        """False if that can't be proven in time."""
        lease = self._lease
        soon = awake() + lease.margin * 0.3
        if not self._grip.freeze(min(lease.freeze_by - self._slept, soon)):
            return False
        self._disarm()
        self._stopped.add("fenced")
        self._fenced_since = self._ask_after = moment()
        self._slept_before = self._last_nap()
        self._say()
        return True

    def _may_sleep(self) -> bool:
        """The machine is about to, and the task is to stand still meanwhile, if it is not being
        ended: it goes on when the machine has woken up and the worker has asked.
        """
        is_new = self._orders.freeze > self._froze_for
        self._froze_for = max(self._froze_for, self._orders.freeze)
        return is_new and self._fence == "freeze" and self._stop is None and self._status is None

    def _last_nap(self) -> float:
        """How long the machine has slept since the lease was seen to be good."""
        asleep = slept() - self._slept
        return asleep if asleep > _A_NAP else 0.0

    def _mind_the_limits(self) -> None:
        if self._stop is not None or self._status is not None or "fenced" in self._stopped:
            return
        if self._limits.is_deadline_over():
            self._begin_to_stop("deadline", self._grace)
            self._show_stack()
        if self._stopped or self._stop is not None:
            return
        exceeded = self._limits.exceeded(self._accounts.usage["rss"])
        if exceeded is not None:
            why, limit = exceeded
            self._begin_to_stop(why, self._grace, limit)
            self._show_stack()

    def _climb_the_ladder(self) -> None:
        """TERM, again and again, then KILL until nothing is left."""
        now = awake()
        if self._status is not None and not self._leftovers:
            self._count_what_is_left(now)
        if self._stop is None and not self._leftovers:
            return
        if now >= self._kill_from or "fenced" in self._stopped:
            self._grip.kill()
        elif now >= self._next_term:
            self._next_term = now + self._kill_interval
            self._ask_to_end()

    def _count_what_is_left(self, now: float) -> None:
        """The main process has ended; what it leaves behind may still be about to."""
        self._leftovers = len(self._grip.processes())
        if self._leftovers:
            self._next_term = now + _LEFTOVER_PATIENCE
            self._end_leftovers_by(self._next_term + _LEFTOVER_GRACE)

    def _stand_still_or_go_on(self) -> None:
        """Pause, after the ladder: what is asked to end must have been asked before it goes on."""
        wanted = self._orders.paused and self._stop is None and self._status is None
        if not wanted:
            if "paused" in self._stopped:
                self._release("paused")
            return
        new = "paused" not in self._stopped
        self._stopped.add("paused")
        if "fenced" not in self._stopped:
            # Not proven is no harm here: it is tried again at the next turn.
            self._grip.freeze(min(awake() + _PAUSE_PATIENCE, self._lease.fence_at - self._slept))
        if new:
            self._say()

    def _sample(self) -> None:
        now = awake()
        watched = moment() < self._orders.watched
        if watched:
            self._next_sample = min(self._next_sample, self._said + _QUICK_SAMPLE)
        if now < self._next_sample:
            return
        spewing = self._log.trim()
        if not spewing or now >= self._said + _QUICK_SAMPLE:
            self._out_of_memory.look()
            changed = self._accounts.usage != self._accounts.sample()
            if changed or watched or now >= self._said + _SAY:
                self._say()
        pause = _QUICK_SAMPLE if self._limits.memory or watched else _SAMPLE
        self._next_sample = now + (_SPEW_SAMPLE if spewing else pause)

    def _listen_and_rest(self) -> None:
        """Of a task that talks we hear in mouthfuls, not word by word; one that talks fast must not
        wait for us.
        """
        moved = self._log.pump()
        if moved:
            pause = 0.0 if moved > _FAST else min(_MOUTHFUL, self._rest())
            signal.sigtimedwait(_HEARD_BY_THE_WAY, pause)
        else:
            signal.sigtimedwait(_HEARD, self._rest())

    def _hear_its_last_words(self) -> None:
        """What its pipe still has: no more than that, if something escaped us and goes on."""
        for _ in range(_LAST_WORDS):
            if not self._log.pump():
                break
            self._log.trim()
        self._log.trim()

    def _rest(self) -> float:
        """How long nothing needs to be done, if nobody calls."""
        now = awake()
        until = [now + _LONGEST_SLEEP, self._next_sample]
        if self._stopped:
            until.append(now + _FROZEN_LOOK)
        if self._fence != "keep" and "fenced" not in self._stopped:
            until.append(self._lease.fence_at - self._slept)
        if self._stop is not None or self._leftovers:
            stuck = now > self._kill_from + _LEFTOVER_GRACE
            if now >= self._kill_from:
                until.append(now + (_STUCK_ROUND if stuck else _KILL_ROUND))
            else:
                until += (self._next_term, self._kill_from)
        elif not self._stopped:
            until.append(now + (self._limits.rest() or _LONGEST_SLEEP))
        return max(0.0, min(until) - now)

    # Deeds

    def _release(self, reason: str) -> None:
        """One reason to stand still less; with none left, and the lease good, it runs."""
        if self._stopped == {reason}:
            self._lease.read()
            if self._fence != "keep" and not self._lease.good:
                return  # it may be another's by now: the fence has the next word
            self._grip.thaw()
        self._stopped.discard(reason)
        if reason == "fenced":
            self._fenced_until = moment()
        self._say()
        # The machine may have slept between the look at the lease and the end of the standstill.
        self._hold_the_fence()

    def _begin_to_stop(self, why: str, grace: float, limit: float | None = None) -> None:
        """By a limit, or by an order; a later order may shorten the time that is left, not add."""
        now = awake()
        if self._status is not None:
            self._end_leftovers_by(now + grace)
            return
        if self._stop is None:
            self._next_term, self._kill_from = now, now + grace
        self._kill_from = min(self._kill_from, now + grace)
        if self._stop is None or self._stop["why"] not in _FINAL:
            self._stop = {**(self._stop or {}), "why": why, "grace": grace, "limit": limit}
        self._say()

    def _end_now(self, why: str) -> None:
        """No grace: what runs here may run elsewhere by now."""
        if self._status is not None:
            self._end_leftovers_by(awake())
        elif self._stop is None or "note" not in self._stop:
            self._stop = {**(self._stop or {"why": "fence", "grace": 0.0}), "note": why}
            self._kill_from = awake()
            self._say()

    def _end_leftovers_by(self, end: float) -> None:
        """The task has ended by itself, and that stands: what it left behind must go."""
        self._kill_from = min(end, self._kill_from or end)

    def _ask_to_end(self) -> None:
        if self._status is None:
            self._send_to_main(signal.SIGTERM, group=True)
        else:
            self._grip.ask(signal.SIGTERM)

    def _send_to_main(self, number: int, *, group: bool = False) -> None:
        # Ended, its number may be another's: in a namespace it is not we who reap it.
        if self._status is not None or tree.started(self._main) != self._identity["started"]:
            return
        try:
            os.kill(-self._main if group else self._main, number)
        except (PermissionError, ProcessLookupError):
            return  # it is another user's now; the ladder ends with what can be killed

    def _show_stack(self) -> None:
        """A Python task's runner writes its stack to the log on this signal."""
        if self._stack_signal:
            self._send_to_main(self._stack_signal)
            self._next_term += _STACK_PAUSE
            self._kill_from += _STACK_PAUSE

    def _say(self) -> None:
        """What is true now, for the worker; what could not be written is said again soon."""
        written = self._folder.write(
            "running",
            {
                **self._identity,
                "stopped": sorted(self._stopped),
                "fenced_since": self._fenced_since,
                "fenced_until": self._fenced_until,
                "slept": self._slept_before,
                "stop": self._stop,
                "ran": self._limits.ran,
                "usage": self._accounts.usage,
            },
        )
        self._said = awake() if written else _NEVER

    def _record(self, **extra: object) -> None:
        """Write how it ended to the file `exit`: again and again until that works, or until the run
        directory is gone.
        """
        content = self._ending() | extra
        if self._cgroup is not None:
            self._cgroup.remove()
        while self._folder.is_there():
            try:
                self._folder.write_exit(content)
                return
            except OSError:
                time.sleep(_WRITE_AGAIN)

    def _ending(self) -> Content:
        now = moment()
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        killed = self._stop is None and code in {-signal.SIGKILL, 128 + signal.SIGKILL}
        kills = None if self._cgroup is None else self._cgroup.oom_kills()
        if kills and code and self._stop is None and self._limits.memory:
            self._stop = {"why": "memory", "grace": 0.0, "note": "the kernel held it to its limit"}
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "stop": self._stop,
            "oom": killed and (self._out_of_memory.lately() if kills is None else kills > 0),
            "leftovers": self._leftovers,
            "began": self._began,
            "ended": time.time(),
            "boot": self._lease.boot,
            "moment": now,
            "took": now - self._began_moment,
            "ran": self._limits.ran,
            "usage": self._accounts.final(),
        }


def keep(folder: RunDirectory, zygotes: Zygotes | None = None) -> None:
    """The life of a keeper process. Whatever goes wrong here must not leave the task without it."""
    # The worker may be trying the lock just now, to see whether anybody holds it.
    if not folder.lock(_LOCK_PATIENCE) or folder.exists("void") or folder.exists("exit"):
        return
    if not folder.allocate_exit():
        return  # a keeper that is no more began it: never twice
    adopt_orphans()
    try:
        spec = loads(folder.read("task.json") or b"")["keeper"]
        keeper = Keeper(folder, spec, zygotes)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        folder.write_exit({"not_started": f"task.json can't be understood: {error!r}"})
        return
    try:
        keeper.run(spec)
    except Lost:
        raise  # the nursery speaks for us when it has ended what is left
    except BaseException as error:
        keeper.give_up(error)
        raise
