"""Settings: defaults, then `stayer.toml`, then the environment, then flags; the later one counts.

Called by every door. `Config` is the table of all settings: a field with its `Setting` is all that
a new one needs; `WORKER` and `SERVE` are what the file may say about workers and about the server.
The file is the one named by the flag `config` or by `STAYER_CONFIG`, else the `stayer.toml` of
this folder or the nearest above it, else
`$XDG_CONFIG_HOME/stayer/stayer.toml`. It may say which programs are run, so one that others can
write is not believed: see `trust`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from stayer.config.hooks import read_hooks
from stayer.config.parsing import (
    parse_count,
    parse_duration,
    parse_fence,
    parse_flag,
    parse_heartbeat,
    parse_isolation,
    parse_lease,
    parse_log_level,
    parse_memory,
    parse_port,
    parse_prefix,
    parse_retention,
    parse_size,
    parse_store,
    parse_submitter,
    parse_switch,
    parse_text,
    parse_texts,
    parse_threads,
    parse_variables,
    parse_whole_number,
)
from stayer.config.submitter import describe_process
from stayer.config.trust import distrust, distrust_path
from stayer.core.errors import BadConfig, BadInput
from stayer.core.queue_model import KEPT, Kept

FILE = "stayer.toml"
DEFAULT = "default"
HOW_TO_TRUST = (
    "To use it, let nobody else write it (chmod go-w), and if it is not yours, name it with "
    "--config"
)

Environment: TypeAlias = Mapping[str, str]
Origin: TypeAlias = Literal["named", "here", "own"]


class Setting(Struct, frozen=True):
    """How one setting is read; `default` is a value, or a function of the environment."""

    help: str
    parse: Callable[[object], object]
    default: str | float | Callable[[Environment], object]
    name: str = ""

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"STAYER_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """Its option on the command line."""
        return f"--{self.name.replace('_', '-')}"


def default_store(environ: Environment) -> str:
    """Name a database in the user's data directory."""
    folder = _user_folder(environ, "XDG_DATA_HOME", ".local/share")
    if folder is None:
        raise BadInput("there is no home directory to keep it in: set STAYER_STORE")
    return f"sqlite:///{_quoted(folder / 'stayer' / 'stayer.db')}"


def default_owner(environ: Environment) -> str:
    """Return the user's name; in a container nobody may have one."""
    for variable in ("USER", "LOGNAME", "USERNAME"):
        if name := environ.get(variable, "").strip():
            return name
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def default_submitter(environ: Environment) -> str:
    """Describe who runs this, and where."""
    return describe_process(default_owner(environ))


class Config(Struct, frozen=True, kw_only=True):
    """The settings in force, and in `sources` where each one comes from."""

    store: Annotated[str, Setting("The URL of the store.", parse_store, default_store)]
    queue: Annotated[str, Setting("The queue of tasks that name none.", parse_text, "default")]
    owner: Annotated[str, Setting("Whose tasks these are.", parse_text, default_owner)]
    lease: Annotated[
        float,
        Setting("How long a silent worker keeps its tasks (at least 2s).", parse_lease, 120.0),
    ]
    retries: Annotated[
        int | None,
        Setting(
            "How often a task that failed is run again by itself, unless it says otherwise. "
            "Default: as its queue says, else never.",
            parse_whole_number,
            None,
        ),
    ]
    submitter: Annotated[
        str,
        Setting(
            "Who submits, as tasks say it: user, host, program and process. `none`: they don't.",
            parse_submitter,
            default_submitter,
        ),
    ]
    record_commit: Annotated[
        bool,
        Setting("Whether a command's record has the git commit here.", parse_switch, True),
    ]
    token: Annotated[str, Setting("The token for a store at an http URL.", parse_text, "")]
    sources: dict[str, str]
    """`default`, the path of a file, the name of a variable, or a flag."""
    worker: dict[str, Any] = {}
    """What the table `[worker]` says, by the names of the options of `stayer worker`."""
    serve: dict[str, Any] = {}
    """What the table `[serve]` says, by the names of the options of `stayer serve`."""
    retention: dict[str, Any] = {}
    """What the table `[retention]` says: how many seconds what is kept."""
    queues: dict[str, dict[str, Any]] = {}
    """What the tables `[queues.NAME]` say of the limits of queues."""
    cron: tuple[dict[str, Any], ...] = ()
    """What the tables `[[cron]]` say, as they are written: see `core.schedules.parse`."""
    notices: dict[str, Any] = {}
    """What the table `[notices]` says of how notices are delivered: see `core.hooks.Rules`."""
    hooks: dict[str, dict[str, Any]] = {}
    """What the tables `[hooks.NAME]` say of who can be told of tasks: see `core.hooks.Hook`."""
    file: str | None = None
    """The file that was read."""
    is_here: bool = False
    """Nobody named that file: it was found in the working directory."""
    passed_over: str | None = None
    """The file in the working directory that was not believed, and why."""

    @property
    def kept(self) -> dict[Kept, float]:
        """How long what is kept, in seconds, where its queue does not say."""
        return USUAL_RETENTION | cast(dict[Kept, float], self.retention)


def _settings() -> dict[str, Setting]:
    hints = get_type_hints(Config, include_extras=True)
    declared = {
        name: entry
        for name, hint in hints.items()
        for entry in getattr(hint, "__metadata__", ())
        if isinstance(entry, Setting)
    }
    return {name: replace(entry, name=name) for name, entry in declared.items()}


SETTINGS = _settings()
"""Every setting by name, in order."""

WORKER: dict[str, Callable[[object], object]] = {
    "queues": parse_texts,
    "evenly": parse_flag,
    "slots": parse_count,
    "lease": parse_lease,
    "heartbeat": parse_heartbeat,
    "state_dir": parse_text,
    "node": parse_text,
    "grace": parse_duration,
    "kill_interval": parse_duration,
    "time_limit": parse_duration,
    "silence_limit": parse_duration,
    "memory_limit": parse_memory,
    "fence": parse_fence,
    "isolate": parse_isolation,
    "cgroup": parse_flag,
    "log_cap": parse_size,
    "exec": parse_text,
    "run": parse_text,
    "arguments": parse_texts,
    "app": parse_text,
    "threads": parse_threads,
    "preload": parse_flag,
    "allow_commands": parse_flag,
    "allow_command": parse_texts,
    "allow_env": parse_texts,
    "allow_code": parse_texts,
    "allow_image": parse_texts,
    "with": parse_texts,
    "requirements": parse_text,
    "python": parse_text,
    "git": parse_text,
    "code_dir": parse_text,
    "code_env": parse_variables,
    "code_time_limit": parse_duration,
    "code_cache_size": parse_size,
    "code_cache_age": parse_duration,
    "task_user": parse_variables,
    "env": parse_variables,
    "log": parse_text,
    "log_level": parse_log_level,
}
"""What may stand in the table `[worker]` of the file, and how it is read."""
SERVE: dict[str, Callable[[object], object]] = {
    "host": parse_text,
    "port": parse_port,
    "host_names": parse_texts,
    "root_path": parse_prefix,
    "trusted_proxies": parse_texts,
    "access_file": parse_text,
    "audit_log": parse_text,
    "body_limit": parse_size,
    "certificate": parse_text,
    "private_key": parse_text,
    "log_level": parse_log_level,
}
"""What may stand in the table `[serve]` of the file, and how it is read."""
RETENTION: dict[str, Callable[[object], object]] = dict.fromkeys(KEPT, parse_retention)
"""What may stand in the table `[retention]` of the file, and how it is read."""
USUAL_RETENTION: dict[Kept, float] = {
    "complete": 30 * 86400.0,
    "failed": 90 * 86400.0,
    "cancelled": 30 * 86400.0,
}
"""How long what has ended is kept where neither its queue nor a file says; logs and results, as
long as their tasks."""
_TABLES = {"worker": WORKER, "serve": SERVE, "retention": RETENTION}
_LISTS = ("cron", "queues", "notices", "hooks")
_PATHS = (
    "state_dir",
    "code_dir",
    "requirements",
    "run",
    "log",
    "access_file",
    "audit_log",
    "certificate",
    "private_key",
)
"""Relative to the folder of the file."""


def load(
    flags: Mapping[str, str | None] | None = None,
    environ: Environment | None = None,
    cwd: Path | None = None,
) -> Config:
    """Gather the settings in force. A flag that is None, and a variable that is empty, say
    nothing.
    """
    environ = os.environ if environ is None else environ
    overrides = {name: value for name, value in (flags or {}).items() if value is not None}
    _refuse_unknown("flags", overrides, (*SETTINGS, "config"))
    path, origin, passed_over = _find_file(
        overrides.get("config"), environ, Path() if cwd is None else cwd
    )
    in_file = {} if path is None else _read(path, owned=origin != "named")
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    written: object
    for name, setting in SETTINGS.items():
        if name in overrides:
            sources[name], written = setting.flag, overrides[name]
        elif environ.get(setting.variable):
            sources[name], written = setting.variable, environ[setting.variable]
        elif name in in_file:
            sources[name], written = str(path), in_file[name]
        else:
            sources[name], written = DEFAULT, None
        values[name] = _value(setting, sources[name], written, environ)
    if path is not None and sources["store"] == str(path):
        values["store"] = beside(path, values["store"])
    tables: dict[str, Any] = {
        name: {} if path is None else _table(path, name, in_file) for name in _TABLES
    }
    for table, found in tables.items():
        sources.update({f"{table}.{name}": str(path) for name in found})
    file = None if path is None else str(path)
    cron = () if path is None else _tables_of(path, "cron", in_file)
    queues = {} if path is None else _queues(path, in_file)
    if path is not None:
        tables |= read_hooks(path, in_file)
    return Config(
        **values, sources=sources, file=file, is_here=origin == "here", passed_over=passed_over,
        cron=cron, queues=queues, **tables,
    )  # fmt: skip


def token_for(config: Config) -> str | None:
    """Return the token to show to the store; None for one that wants none. One that the environment
    has is for a store that the user has chosen, not for one that a file names which happens to be
    here: it may have come with somebody's repository.
    """
    if not config.token or not config.store.startswith(("http://", "https://")):
        return None
    variable = SETTINGS["token"].variable
    if config.is_here and (config.sources["store"], config.sources["token"]) == (
        config.file,
        variable,
    ):
        raise BadConfig(
            f"{variable} is not sent to {config.store}, which a {FILE} of this folder names "
            f"({config.file}). If you trust that server, name it with --store or STAYER_STORE, or "
            "the file with --config; or put its token beside it, in the file"
        )
    return config.token


def refuse_own_store_in_test(config: Config) -> None:
    """Refuse the store that a developer or a deployment has, where a test of pytest did not name
    one: it would be filled with what tests submit.
    """
    variable = SETTINGS["store"].variable
    # The second is there while pytest collects, too: a module may submit when it is imported.
    is_in_test = "PYTEST_CURRENT_TEST" in os.environ or "PYTEST_VERSION" in os.environ
    if not is_in_test or config.sources["store"] in ("--store", variable):
        return
    where = "the default" if config.sources["store"] == DEFAULT else config.sources["store"]
    raise BadConfig(
        f"this test would use {config.store} ({where}). Give it a store of its own with the "
        f"fixture stayer_store, or name one: {variable}, App(url), Client(url)"
    )


def _queues(path: Path, in_file: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    found = in_file.get("queues", {})
    if not found:
        return {}
    from stayer.core import queue_settings

    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise BadConfig(f"{path}: queues: write [queues.NAME] before the limits of a queue")
    for name, settings in found.items():
        _refuse_unknown(f"{path}: [queues.{name}]", settings, queue_settings.LIMITS)
        try:
            queue_settings.read(cast("queue_settings.WrittenSettings", settings))
        except BadInput as error:
            raise BadConfig(f"{path}: queues.{name}: {error}") from None
    return found


def _table(path: Path, table: str, in_file: Mapping[str, object]) -> dict[str, object]:
    found = in_file.get(table, {})
    if not isinstance(found, dict):
        raise BadConfig(f"{path}: {table} is not a table: write [{table}], its settings below")
    known = _TABLES[table]
    _refuse_unknown(f"{path}: [{table}]", found, tuple(known))
    values: dict[str, object] = {}
    for name, written in found.items():
        try:
            values[name] = known[name](written)
        except BadInput as error:
            raise BadConfig(f"{path}: {table}.{name}: {error}") from None
        if name in _PATHS:
            values[name] = str(path.parent / os.path.expanduser(str(values[name])))
    return values


def _tables_of(path: Path, name: str, in_file: Mapping[str, object]) -> tuple[Any, ...]:
    found = in_file.get(name, [])
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadConfig(f"{path}: {name} is no list of tables: write [[{name}]] before each")
    return tuple(found)


def _value(setting: Setting, source: str, written: object, environ: Environment) -> object:
    try:
        if source != DEFAULT:
            return setting.parse(written)
        return setting.default(environ) if callable(setting.default) else setting.default
    except BadInput as error:
        known = source in (setting.flag, setting.variable)
        place = source if known else f"{source}: {setting.name}"
        raise BadConfig(f"{place}: {error}") from None


def beside(path: Path, url: str) -> str:
    """Resolve a relative SQLite path in a file from that file: the same store from any folder."""
    relative = url.removeprefix("sqlite:///")
    if relative == url or relative.startswith("/") or relative == ":memory:":
        return url
    return f"sqlite:///{_quoted(path.parent)}/{relative}"


def _quoted(path: Path) -> str:
    """Write a path as it stands in a URL."""
    text = path.as_posix()
    for character, code in (("%", "%25"), ("?", "%3F"), ("#", "%23")):
        text = text.replace(character, code)
    return text


def former_access_file(config: Config) -> Path | None:
    """Return where Stayer kept tokens before they were in the store, unless the table `[serve]`
    named a file: beside the configuration file. None without one, and without a home.
    """
    if config.file is not None:
        return Path(config.file).with_suffix(".access.json")
    folder = _user_folder(os.environ, "XDG_CONFIG_HOME", ".config")
    return None if folder is None else folder / "stayer" / "stayer.access.json"


def _find_file(
    flag: str | None, environ: Environment, cwd: Path
) -> tuple[Path | None, Origin, str | None]:
    """Return the file to read, how it was found, and which one was passed over, and why."""
    named = flag or environ.get("STAYER_CONFIG")
    if named:
        path = (cwd / os.path.expanduser(named)).absolute()
        if not os.path.isfile(path):
            source = "--config" if flag else "STAYER_CONFIG"
            raise BadConfig(f"{source}: there is no file {path}: make it, or name another")
        return path, "named", None
    passed_over = None
    here = _nearest(cwd)
    if here is not None:
        # A link, too: relative paths in the file are relative to where that is.
        why_not = distrust_path(here)
        if why_not is None:
            return here, "here", None
        passed_over = f"{here}: {why_not}"
    folder = _user_folder(environ, "XDG_CONFIG_HOME", ".config")
    own = None if folder is None else folder / "stayer" / FILE
    return own if own and os.path.isfile(own) else None, "own", passed_over


def _nearest(cwd: Path) -> Path | None:
    """Find the file of this folder, or of the nearest one above that has one: a command in a
    subfolder of a project means the project's store. A parent that can't be looked into has none.
    """
    try:
        folder = cwd.absolute()
    except OSError:  # this directory is gone
        return None
    for each in (folder, *folder.parents):
        if os.path.isfile(each / FILE):
            return each / FILE
    return None


def _user_folder(environ: Environment, variable: str, otherwise: str) -> Path | None:
    """Find a folder by the XDG rules, where a relative path counts as none; None without a home."""
    named = Path(environ.get(variable, ""))
    if named.is_absolute():
        return named
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    return home / otherwise if home.is_absolute() else None


def _read(path: Path, *, owned: bool) -> dict[str, object]:
    """Read what the file says. `owned`: only if it is the user's own, or root's."""
    import tomllib

    try:
        with path.open(encoding="utf-8") as file:
            # Of the very file that is read, whatever its name leads to by then.
            why_not = distrust(os.fstat(file.fileno()), owned=owned)
            if why_not is not None:
                raise BadConfig(
                    f"{path} is not read: {why_not}. Who can write it decides what runs as you. "
                    f"Make it yours and let nobody else write it (chmod go-w {path})"
                    + (", or name it with --config if you trust it" if owned else "")
                )
            found = tomllib.loads(file.read())
    except OSError as error:
        raise BadConfig(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path} is not UTF-8 at byte {error.start}: save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f'{path} is not TOML: {error}. Write for example: queue = "b"') from None
    _refuse_unknown(str(path), found, (*SETTINGS, *_TABLES, *_LISTS))
    return found


def _refuse_unknown(place: str, found: Mapping[str, object], allowed: tuple[str, ...]) -> None:
    for name in found:
        if name not in allowed:
            import difflib

            near = difflib.get_close_matches(name, allowed, 1)
            instead = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(allowed)}"
            raise BadConfig(f"{place}: no setting is called {name!r}: {instead}")
