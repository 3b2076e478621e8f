"""What all commands share: the options that may stand before or after the verb, and the store."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import click as plain_click
import rich_click as click

from stayer.cli import VERBS
from stayer.cli.output import note

if TYPE_CHECKING:
    from rich_click.rich_help_rendering import RichPanelRow

    from stayer.config import Config
    from stayer.store import Store

FILTER, EVERYWHERE = "Filter", "Everywhere"
OPTION_PANELS = (
    "What to run", "When", "Retries", "Limits", "Order and ownership", "Find and notify",
)  # fmt: skip
"""The groups of options between those of a command alone and those of all, in their order."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class Given:
    """What the user gave before or after the verb, and the store that it leads to."""

    def __init__(self) -> None:
        self.store_url: str | None = None
        self.config_file: str | None = None
        self._store: Store | None = None
        self.quiet = False
        """Say nothing of files that are passed over."""

    def config(self) -> Config:
        """Return the settings in force."""
        from stayer import config

        found = config.load({"store": self.store_url, "config": self.config_file})
        if found.passed_over is not None and not self.quiet:
            from stayer.cli.output import note

            note(f"not read: {found.passed_over}. {config.HOW_TO_TRUST}")
            self.quiet = True
        return found

    def store(self, *, make: bool = False, moving: bool = False) -> Store:
        """Return the store, ready to be used; the same one at each call.

        Only who brings something to it makes it: a slip in its name is no new, empty store. That it
        was moved is said, unless that is what it is about.
        """
        if self._store is None:
            store = self.unopened_store()
            if not make:
                _refuse_what_is_not_there(store, self.config().sources["store"])
            store.setup()
            if not moving and (seal := store.seal()) is not None:
                note(f"{store.url}: {seal.message}")
            self._store = store
        return self._store

    def unopened_store(self) -> Store:
        """Return the store as it is found, to be looked at before anything touches it."""
        from stayer.config import token_for
        from stayer.stores import open_store

        settings = self.config()
        refuse_memory(settings.store)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            store = open_store(settings.store, token=token_for(settings))
        for each in found:
            if issubclass(each.category, UserWarning):  # others are for programmers
                note(f"warning: {each.message}")
        return store

    def close(self) -> None:
        """Let go of the store."""
        if self._store is not None:
            self._store.close()


def refuse_memory(url: str) -> None:
    """Refuse a store that ends with this process."""
    from stayer.core.errors import BadConfig
    from stayer.stores import is_in_memory

    if is_in_memory(url):
        raise BadConfig(
            f"store {url}: a store in memory is seen by one process alone, and ends with it. It is "
            'for Python, as in Client("memory:"); here give a file, sqlite:///path.db, or a server'
        )


def _refuse_what_is_not_there(store: Store, source: str) -> None:
    from stayer.config import default_store
    from stayer.core.errors import BadInput, StoreUnusable

    with suppress(BadInput):  # nobody's home: then this is not the default
        if store.url == default_store(os.environ):
            return
    if store.path is not None and not os.path.isdir(os.path.dirname(store.path)):
        return  # which `setup` says better
    if not store.is_made():
        raise StoreUnusable(
            f"there is no store at {store.path or store.url}, which {source} names: correct that, "
            "or make the store with `stayer init`"
        )


class Argument(click.RichArgument):
    """An argument that the help calls by its metavar."""

    def get_rich_table_row(
        self,
        ctx: click.RichContext,
        formatter: click.RichHelpFormatter,
        panel: click.RichOptionPanel | None = None,
    ) -> RichPanelRow:
        from rich.text import Text

        name = Text(self.metavar or self.human_readable_name, formatter.config.style_argument)
        return [None, name, self.get_rich_help(ctx, formatter)]


class Command(click.RichCommand):
    """A command with the shared options."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "panels": _panels()})
        self.params.extend(shared_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        announced = args[-1:] == ["--"]
        rest = super().parse_args(ctx, args)
        if announced and ctx.params.get("words") == ():  # perhaps a variable that was empty
            raise click.UsageError("there is no command after --: write one, or leave it out", ctx)
        return rest

    def format_help(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        set_click_version()
        super().format_help(ctx, formatter)


class Group(click.RichGroup):
    """A command with commands of its own, and the shared options. Without one of them it lists:
    `stayer cron` is `stayer cron ls`. Words of other tools for the same are understood.
    """

    command_class = Command

    def __init__(self, *args: Any, **attributes: Any) -> None:
        super().__init__(*args, **{**attributes, "panels": _panels()})
        self.params.extend(shared_options())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = count_shared(args)
        word = args[at] if at < len(args) else None
        lists = "ls" in self.commands
        if lists and (word is None or (word.startswith("-") and word not in HELP)):
            args = [*args[:at], "ls", *args[at:]]
        elif not lists and self.invoke_without_command and word in ("ls", "list"):
            args = [*args[:at], *args[at + 1 :]]  # it lists by itself
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        for name in (cmd_name, *OTHER_WORDS.get(cmd_name, ())):
            if (found := super().get_command(ctx, name)) is not None:
                return found
        return None

    def format_help(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        set_click_version()
        super().format_help(ctx, formatter)


HELP = ("-h", "--help")
_WITH_VALUE = ("--store", "--config")
OTHER_WORDS = {
    "add": ("submit",),
    "create": ("add", "submit"),
    "delete": ("rm",),
    "drop": ("rm",),
    "list": ("ls",),
    "remove": ("rm",),
    "submit": ("add",),
}
"""What else commands of a group may be called: hidden, for habits and for older scripts."""


def count_shared(args: Sequence[str]) -> int:
    """Count the arguments at the front that are options of every command."""
    at = 0
    while at < len(args):
        if args[at] in _WITH_VALUE:
            at += 2
        elif args[at] == "--no-color" or args[at].startswith(tuple(f"{o}=" for o in _WITH_VALUE)):
            at += 1
        else:
            break
    return min(at, len(args))


def _panels() -> list[click.RichPanel[Any, Any]]:
    """Return the panels of the help, in their order."""
    commands = (*dict.fromkeys(verb.panel for verb in VERBS.values()), "Commands")
    return [
        *(click.RichCommandPanel(name) for name in commands),
        *(
            click.RichOptionPanel(name)
            for name in ("Arguments", "Options", *OPTION_PANELS, FILTER, EVERYWHERE)
        ),
    ]


def command(
    cls: type[Command] = Command, **attributes: Any
) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command of its name (without a trailing underscore)."""

    def decorate(function: Callable[..., Any]) -> Command:
        name = function.__name__.rstrip("_")
        return click.command(name, cls=cls, **attributes)(click.pass_obj(function))

    return decorate


def argument(name: str, **attributes: Any) -> Callable[[Decorated], Decorated]:
    """Add an argument that the help explains."""
    return click.argument(name, cls=Argument, **attributes)


def shared_options() -> list[click.Parameter]:
    """Make the options of every command: fresh copies, because an option belongs to one command."""
    return [
        click.RichOption(
            ["--store"],
            metavar="URL",
            help="The store, such as sqlite:///file.db, redis://host:6379/0 or http://host:8787. "
            "(Environment: STAYER_STORE.)",
            expose_value=False,
            callback=_keep_store,
            panel=EVERYWHERE,
        ),
        click.RichOption(
            ["--config"],
            metavar="FILE",
            help="Read settings from this file instead of stayer.toml.",
            expose_value=False,
            callback=_keep_config,
            panel=EVERYWHERE,
        ),
        click.RichOption(
            ["--no-color"],
            is_flag=True,
            is_eager=True,
            help="No colours. (Environment: NO_COLOR.)",
            expose_value=False,
            callback=_keep_colourless,
            panel=EVERYWHERE,
        ),
    ]


def get_given(context: click.Context) -> Given:
    """Return what the user gave so far; the first call makes it."""
    found = context.ensure_object(Given)
    root = context.find_root()
    if root.obj is None:
        root.obj = found
    return found


def _keep_store(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        get_given(context).store_url = value


def _keep_config(context: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        get_given(context).config_file = value


def _keep_colourless(context: click.Context, _: click.Parameter, value: bool) -> None:
    get_given(context)
    if value:
        os.environ["NO_COLOR"] = "1"  # heeded by rich, also where the help is printed


def set_click_version() -> None:
    """Set click's version, which rich_click asks for: finding out, click would import for 30 ms."""
    from pathlib import Path

    for found in Path(plain_click.__file__).parent.parent.glob("click-*.dist-info"):
        vars(plain_click).setdefault("__version__", found.name[len("click-") : -len(".dist-info")])
