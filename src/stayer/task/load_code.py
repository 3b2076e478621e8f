"""Finding the user's code: a class in a file, an app in a module.

Whatever goes wrong is an ImportError that says what to do; the cause is chained to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from types import ModuleType
from typing import Protocol, cast

from stayer.core.errors import Stopped
from stayer.core.model import Value
from stayer.task.context import Context


class TaskClass(Protocol):
    """What a class is to have; `kill`, `before` and `after` are optional."""

    def __init__(self, task: Context) -> None: ...
    def run(self) -> object: ...


class TaskApp(Protocol):
    """What an app is, seen from here."""

    @property
    def names(self) -> tuple[str, ...]: ...
    def call(self, task: Context) -> Value: ...


def load_class(target: str) -> type[TaskClass]:
    """Load the class of `FILE[:Class]`: the one called Run, else the only one that has `run`."""
    path, name = (target, "") if os.path.isfile(target) else _split(target)
    _search_first(os.path.dirname(os.path.abspath(path)))
    with _explain_import_errors(path):
        module = _import_file(path)

    def fits(value: object) -> bool:
        return isinstance(value, type) and callable(getattr(value, "run", None))

    def is_own(value: object) -> bool:
        return fits(value) and getattr(value, "__module__", None) == module.__name__

    found = _find(module, path, name, "Run", fits, is_own, "class with a method `run`")
    return cast(type[TaskClass], found)


def load_app(target: str) -> TaskApp:
    """Return the app of `MODULE[:app]`: the one called app, else the only one."""
    module_name, name = _split(target)
    if os.sep in module_name or module_name.endswith(".py"):
        raise ImportError(
            f"{module_name} is a file: give the name under which it is imported, such as "
            f"{os.path.basename(module_name).removesuffix('.py')}, and run the worker where it is"
        )
    _search_first(os.getcwd())
    with _explain_import_errors(module_name):
        module = import_module(module_name)

    def fits(value: object) -> bool:
        if isinstance(value, type | ModuleType):
            return False
        return hasattr(value, "names") and callable(getattr(value, "call", None))

    return cast(TaskApp, _find(module, module_name, name, "app", fits, fits, "App"))


def load_function(target: str) -> Callable[..., object] | type[TaskClass]:
    """Load the function, or class with a method `run`, of `package.module:name`."""
    module_name, name = _split(target)
    with _explain_import_errors(module_name or target):
        found: object = import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type) and callable(getattr(found, "run", None)):
        return cast(type[TaskClass], found)
    if isinstance(found, type) or not callable(found):
        raise ImportError(f"{module_name} has no function {name}, nor a class with a method `run`")
    return found


def load_installed_function(target: str) -> Callable[..., object] | type[TaskClass]:
    """Load a function or class whose package was installed for the task. Whoever submits chooses
    the name: what else there is in Python, such as `os:system`, nobody has allowed.
    """
    module_name, name = _split(target)
    if not _is_installed_here(module_name):
        raise ImportError(
            f"{module_name or target} is in none of the packages that were installed for the task, "
            "nor in its repository: name a function of these"
        )
    found = load_function(target)
    origin = getattr(found, "__module__", None)
    if not (isinstance(origin, str) and _is_installed_here(origin)):
        raise ImportError(
            f"{name} is not a function of {module_name}, which only imports it: name one that was "
            "installed for the task"
        )
    return found


def _is_installed_here(module_name: str) -> bool:
    """Return whether a module lies in the environment that was prepared for the task: the folder
    with its packages and its checkout. Imports nothing.
    """
    package = module_name.partition(".")[0]
    try:
        spec = find_spec(package) if package else None
    except (ImportError, ValueError):  # a module without a place, such as __main__
        spec = None
    if spec is None:
        return False
    environment = os.path.join(os.path.realpath(os.path.dirname(sys.prefix)), "")
    origin = spec.origin if spec.has_location else None
    places = spec.submodule_search_locations or ([origin] if origin else [])
    return bool(places) and all(os.path.realpath(each).startswith(environment) for each in places)


def app_of(function: Callable[..., object], name: str) -> TaskApp:
    """Make an app with just this function. Imported by name: what is here stands below apps, and
    only the code of users brings them in.
    """
    made: TaskApp = import_module("stayer.app").app_of(function, name)
    return made


def _split(target: str) -> tuple[str, str]:
    place, _, name = target.rpartition(":")
    return (place, name) if place else (name, "")


def _search_first(folder: str) -> None:
    """Import from this folder before all others, as if a script there had been started."""
    if not sys.flags.safe_path:
        del sys.path[0]  # where `python -m` was called
    sys.path.insert(0, folder)


def _import_file(path: str) -> ModuleType:
    """Import the file as a module of its name, so that what it defines can be found by other
    processes.
    """
    name = os.path.basename(path).removesuffix(".py")
    if name in sys.modules:
        name = f"stayer_task_{name}"
    loader = SourceFileLoader(name, os.path.abspath(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return module


@contextmanager
def _explain_import_errors(what: str) -> Iterator[None]:
    try:
        yield
    except (Stopped, KeyboardInterrupt):
        raise
    except SystemExit as exit:
        raise ImportError(
            f"{what} called sys.exit({exit.code!r}) while it was imported: put what is to happen "
            'only when it is run itself under `if __name__ == "__main__":`'
        ) from exit
    except BaseException as error:
        text = f"{type(error).__qualname__}: {error}".removesuffix(": ")
        where = f" (looked in {sys.path[0]} first)" if isinstance(error, ImportError) else ""
        raise ImportError(f"{what} can't be imported: {text}{where}") from error


def _find(
    module: ModuleType,
    place: str,
    name: str,
    default: str,
    fits: Callable[[object], bool],
    is_own: Callable[[object], bool],
    what: str,
) -> object:
    if name:
        if fits(found := getattr(module, name, None)):
            return found
        raise ImportError(f"{place} has no {what} called {name}")
    if fits(found := getattr(module, default, None)):
        return found
    names = {id(value): name for name, value in vars(module).items() if is_own(value)}
    if len(names) == 1:
        return getattr(module, *names.values())
    if not names:
        raise ImportError(f"{place} has no {what}: call it {default}")
    listed = sorted(names.values())
    raise ImportError(
        f"{place} has more than one {what} ({', '.join(listed)}): say which, as in "
        f"{place}:{listed[0]}"
    )
