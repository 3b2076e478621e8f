"""The options of `worker` and `up`, and what they mean together with the table `[worker]` of the
file of settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import rich_click as click

from stayer.cli.command import Decorated, argument
from stayer.cli.log_level import chosen_level, log_level_options
from stayer.cli.param_types import DURATION, MEMORY, SIZE
from stayer.config import WORKER, Config
from stayer.config.parsing import FENCES, ISOLATIONS, MOST_THREADS, check_heartbeat, parse_lease
from stayer.core.errors import BadConfig
from stayer.core.safe_text import LogLevel
from stayer.core.submit.names import check_word

HANDLER, DEFAULT, LIMITS = "What to run", "Code of tasks that ask for none", "Limits"
HANDLERS = ("exec", "run", "app", "allow_commands", "allow_command", "allow_code", "allow_image")
DEFAULT_CODE = ("with", "requirements", "python", "git")
"""What tasks run with that ask for nothing."""
CODE_LIMITS = ("code_time_limit", "code_cache_size", "code_cache_age")
_SURROUNDINGS = (
    "arguments", "preload", "allow_env", "env", *DEFAULT_CODE, "code_dir", "code_env", *CODE_LIMITS,
)  # fmt: skip
_LIMITS = (
    "grace", "kill_interval", "time_limit", "silence_limit", "memory_limit", "fence", "isolate",
    "cgroup", "log_cap", "heartbeat",
)  # fmt: skip
_FOR_PROCESSES = (
    "exec", "run", "arguments", "preload", "allow_commands", "allow_command", "allow_env",
    "allow_code", "allow_image", *DEFAULT_CODE, "slots", "kill_interval",
    "silence_limit", "memory_limit", "fence", "isolate", "cgroup", "log_cap",
)  # fmt: skip

_OPTIONS = (
    click.option(
        "-q",
        "--queue",
        "queues",
        multiple=True,
        metavar="QUEUE",
        help="Take tasks from this queue. May be repeated; the first ones come first.",
    ),
    click.option("--evenly", is_flag=True, help="Take tasks from all queues in turn."),
    click.option(
        "--slots",
        type=click.IntRange(1),
        metavar="N",
        help="How many tasks at once (1; with `up`: one per processor).",
    ),
    click.option(
        "--lease",
        type=DURATION,
        metavar="DURATION",
        help="How long the store waits for this worker when it falls silent (120s).",
    ),
    click.option(
        "--heartbeat",
        type=DURATION,
        metavar="DURATION",
        help="How often it renews that (an eighth of it, which is also the most).",
    ),
    click.option(
        "--state-dir",
        metavar="DIR",
        help="Where it keeps what it runs; one worker at a time.",
    ),
    click.option("--node", metavar="NAME", help="The name of this machine (its host name)."),
    click.option(
        "--exec",
        metavar="CMD",
        panel=HANDLER,
        help="Run this command: parameters on its standard input, the id as last argument, or "
        "where it says {id}.",
    ),
    click.option(
        "--run",
        metavar="FILE[:CLASS]",
        panel=HANDLER,
        help="Run this Python class: run() gives the result.",
    ),
    click.option(
        "--app",
        metavar="MODULE[:APP]",
        panel=HANDLER,
        help="Run the functions of this stayer.App, by name.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, MOST_THREADS),
        metavar="N",
        panel=HANDLER,
        help="Run them in threads, up to N at once, not in processes: for short functions.",
    ),
    click.option(
        "--preload",
        is_flag=True,
        panel=HANDLER,
        help="Import the app or class once, and fork each task from that process: a quicker start. "
        "Not for code that uses threads or a GPU while it is imported.",
    ),
    click.option(
        "--allow-commands",
        is_flag=True,
        panel=HANDLER,
        help="Run any commands, with any variables, that tasks bring: a shell for all who submit.",
    ),
    click.option(
        "--allow-command",
        multiple=True,
        metavar="PATTERN",
        panel=HANDLER,
        help="Run commands whose program matches, such as 'ffmpeg' (in this worker's PATH) or "
        "'/opt/tools/*', with any arguments. May be repeated.",
    ),
    click.option(
        "--allow-env",
        multiple=True,
        metavar="PATTERN",
        panel=HANDLER,
        help="Let tasks set variables whose name matches, such as 'CUDA_*'. Without it, none. May "
        "be repeated.",
    ),
    click.option(
        "--allow-code",
        multiple=True,
        metavar="PATTERN",
        panel=HANDLER,
        help="Install code for tasks that ask for it: packages whose name matches ('numpy', "
        "'acme-*'), repositories whose address does ('https://HOST/acme/*'), '*' for all. May be "
        "repeated.",
    ),
    click.option(
        "--allow-image",
        multiple=True,
        metavar="PATTERN",
        panel=HANDLER,
        help="Run commands in containers of images whose name matches, such as 'python:*' or "
        "'HOST/acme/*', with podman: any command in them, and none outside. May be repeated.",
    ),
    click.option(
        "--with",
        "with",
        multiple=True,
        metavar="PACKAGE",
        panel=DEFAULT,
        help="Install this package for tasks that ask for no code: numpy, 'numpy>=2' … May be "
        "repeated.",
    ),
    click.option(
        "--requirements",
        metavar="FILE",
        panel=DEFAULT,
        help="Install the packages in this file for tasks that ask for no code: requirements, or a "
        "lock with hashes.",
    ),
    click.option(
        "--python",
        metavar="VERSION",
        panel=DEFAULT,
        help="Run tasks that ask for no code with this Python: 3.12, '>=3.11' …",
    ),
    click.option(
        "--git",
        metavar="URL[@REF][#FOLDER]",
        panel=DEFAULT,
        help="Let tasks that ask for no code import what is in this repository, and install what "
        "that needs. Without anything else to run: run functions of it.",
    ),
    click.option("--code-dir", metavar="DIR", help="Where what was installed for tasks is kept."),
    click.option(
        "--code-env",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set this for uv, git and podman, and not for tasks: UV_DEFAULT_INDEX, credentials …",
    ),
    click.option(
        "--code-time-limit",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="How long it may take to install the code of a task, or to get its image (30m).",
    ),
    click.option(
        "--code-cache-size",
        type=SIZE,
        metavar="SIZE",
        panel=LIMITS,
        help="How much is kept of what was installed for tasks (20G).",
    ),
    click.option(
        "--code-cache-age",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="How long it is kept after it was last used (30d).",
    ),
    click.option(
        "--task-user",
        multiple=True,
        metavar="[QUEUE=]NAME",
        help="Run tasks (of this queue) as this user, not as root. May be repeated.",
    ),
    click.option("--env", multiple=True, metavar="NAME=VALUE", help="Set this for the tasks."),
    click.option(
        "--grace",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="How long a task may take between being asked to end and being killed (30s).",
    ),
    click.option(
        "--kill-interval",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="How often it is asked in that time (10s).",
    ),
    click.option(
        "--time-limit",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="End tasks that run longer.",
    ),
    click.option(
        "--silence-limit",
        type=DURATION,
        metavar="DURATION",
        panel=LIMITS,
        help="End tasks that neither report nor print anything for this long.",
    ),
    click.option(
        "--memory-limit",
        type=MEMORY,
        metavar="SIZE",
        panel=LIMITS,
        help="End tasks whose processes use more together.",
    ),
    click.option(
        "--fence",
        type=click.Choice(FENCES),
        panel=LIMITS,
        help="What happens to tasks when the lease is over and the store is out of reach (freeze).",
    ),
    click.option(
        "--isolate",
        type=click.Choice(ISOLATIONS),
        panel=LIMITS,
        help="Run each task in a pid namespace of its own: nothing of it can outlive its keeper.",
    ),
    click.option(
        "--cgroup",
        is_flag=True,
        panel=LIMITS,
        help="Give each task a cgroup of its own, if this worker may make any (systemd: Delegate).",
    ),
    click.option(
        "--log-cap",
        type=SIZE,
        metavar="SIZE",
        panel=LIMITS,
        help="How much of a task's log is kept on this machine, its beginning and its end (256M).",
    ),
    click.option(
        "--log",
        metavar="FILE",
        help="Write the worker's own log there instead of standard error.",
    ),
    *log_level_options,
    click.option(
        "--daemon",
        metavar="PIDFILE",
        help="Go on in the background when the worker has begun, and write its process id to this "
        "file. Needs --log.",
    ),
    click.option(
        "--take-over",
        is_flag=True,
        help="Replace the worker that has the state directory; its tasks run on.",
    ),
)


_ARGUMENTS = argument(
    "arguments",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- ARG...]",
    help="What --exec or --run is given besides the task: in `sys.argv` of the file.",
)


def worker_options(function: Decorated) -> Decorated:
    """Add all of them; the function is given them by name, None or empty where nothing was said."""
    return _with_options(_ARGUMENTS(function))


def _with_options(function: Decorated) -> Decorated:
    decorated: Any = function
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast(Decorated, decorated)


def hidden_worker_options(function: Decorated) -> Decorated:
    """Add them to a command whose help says only that there are such."""
    there = len(getattr(function, "__click_params__", ()))
    decorated: Any = _with_options(function)
    for option in decorated.__click_params__[there:]:
        option.hidden = True
    return cast(Decorated, decorated)


def worker_settings(config: Config, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags of a worker as they are written to the table `[worker]`, checked."""
    flags = {name: value for name, value in given.items() if name in WORKER and value}
    for name in ("daemon", "take_over"):
        if given.get(name):
            raise BadConfig(f"--{name.replace('_', '-')} can't be a setting: leave it out")
    if any(given.get(name) for name in ("verbose", "quiet")):
        flags["log_level"] = chosen_level(given)
    if flags:
        plan_worker(config, flags)
    return flags


class WorkerPlan(NamedTuple):
    """What a worker is to be."""

    handlers: dict[str, Any]
    threads: int | None
    behaviour: dict[str, Any]
    task_users: tuple[str, ...]
    """As `NAME` or `QUEUE=NAME`."""
    state_dir: str | None
    node: str | None
    log: str | None
    log_level: LogLevel
    daemon: str | None
    take_over: bool
    ignored_note: str | None
    """What is to be said of settings that do not go with the flags."""


def plan_worker(config: Config, given: Mapping[str, Any], slots: int = 1) -> WorkerPlan:
    """Merge flags and file. A flag goes first; one that says what to run replaces all of these."""
    options = {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != ()
    }
    in_file, ignored_note = _settings_in_force(config, options)
    both: dict[str, Any] = {**in_file, **options}
    _refuse_empty_limits(config, options, both)
    if "threads" in both:
        _check_threads(both, "--threads" if "threads" in options else f"threads in {config.file}")
        if "task_user" in both:
            raise BadConfig(
                "--task-user is for tasks in processes of their own, and --threads runs all of "
                "them in one that talks to the store: start that worker as the user itself"
            )
    if "preload" in both and "isolate" in both:
        raise BadConfig(
            "--preload forks tasks where their code is, and --isolate needs each to begin in a "
            "namespace of its own: leave one of them out"
        )
    if names := [name for name in DEFAULT_CODE if name in both and "preload" in both]:
        raise BadConfig(
            f"--preload forks tasks from a process with the worker's own Python, and --{names[0]} "
            "gives them another: leave one of them out"
        )
    if "allow_image" in both and "isolate" in both:
        raise BadConfig(
            "--allow-image runs containers, which have a pid namespace of their own, and podman "
            "can't run in one of --isolate: leave one of them out"
        )
    lease = parse_lease(both.get("lease", config.lease))
    check_heartbeat(both.get("heartbeat"), lease)
    return WorkerPlan(
        threads=both.get("threads"),
        task_users=tuple(both.get("task_user", ())),
        handlers={name: both[name] for name in (*HANDLERS, *_SURROUNDINGS) if name in both},
        behaviour={
            "queues": _queues(both.get("queues") or (config.queue,)),
            "evenly": both.get("evenly", False),
            "slots": both.get("slots", slots),
            "lease": lease,
            **{name: both[name] for name in _LIMITS if name in both},
        },
        state_dir=both.get("state_dir"),
        node=both.get("node"),
        log=both.get("log"),
        log_level=chosen_level(both),
        daemon=both.get("daemon"),
        take_over=both.get("take_over", False),
        ignored_note=ignored_note,
    )


def _queues(names: Sequence[str]) -> tuple[str, ...]:
    """Check the names of queues, and return each once."""
    for name in names:
        check_word("queue", name)
    return tuple(dict.fromkeys(names))


def _settings_in_force(
    config: Config, options: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """What the file says that flags leave standing; and, where they do away with more than they
    replace because threads and processes don't go together, what to say of that.
    """
    in_file, ignored_note = dict(config.worker), None
    if any(name in options for name in HANDLERS):
        replaced = (*HANDLERS, "arguments")
        in_file = {name: value for name, value in in_file.items() if name not in replaced}
    if any(name in options for name in DEFAULT_CODE):  # one environment, said as a whole
        in_file = {name: value for name, value in in_file.items() if name not in DEFAULT_CODE}
    in_processes = [name for name in HANDLERS if name in options and name != "app"]
    if in_processes and "threads" in in_file and "threads" not in options:
        threads, flag = in_file.pop("threads"), f"--{in_processes[0].replace('_', '-')}"
        ignored_note = (
            f"threads = {threads} in {config.file} is ignored, because {flag} runs tasks in "
            f"processes of their own: start another worker, without {flag}, for the threads"
        )
    if "threads" in options:  # the file may be that of a worker without
        if names := [
            name for name in _FOR_PROCESSES if name in config.worker and name not in options
        ]:
            ignored_note = (
                f"{', '.join(names)} in {config.file} {'is' if len(names) == 1 else 'are'} "
                "ignored, because --threads runs the functions of an app only, in one process: "
                "start another worker, without --threads, for other tasks"
            )
        in_file = {name: value for name, value in in_file.items() if name not in _FOR_PROCESSES}
    return in_file, ignored_note


def _refuse_empty_limits(
    config: Config, options: Mapping[str, Any], both: Mapping[str, Any]
) -> None:
    for name in ("time_limit", "silence_limit", "memory_limit"):
        if both.get(name) == 0:
            flag = f"--{name.replace('_', '-')} 0"
            where = flag if name in options else f"{name} 0 in {config.file}"
            raise BadConfig(f"{where} leaves tasks nothing: leave it out for no limit")


def _check_threads(both: Mapping[str, Any], threads: str) -> None:
    """Say what can't be together before any task is taken."""
    if "app" not in both:
        raise BadConfig("threads run the functions of an app: give --app MODULE too")
    for name in _FOR_PROCESSES:
        if name in both:
            raise BadConfig(
                f"--{name.replace('_', '-')} is for tasks in processes of their own: leave it out, "
                f"or start a worker without {threads} for them"
            )
