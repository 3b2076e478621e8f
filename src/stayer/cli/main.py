"""The command `stayer` itself: finds the command that is called, and turns what goes wrong into
one line and an exit code.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import rich_click as click
from click.exceptions import Exit  # asked of rich_click, it costs 30 ms

from stayer import __version__
from stayer.cli import HABITS, VERBS
from stayer.cli.command import Group, count_shared, get_given
from stayer.cli.exit_codes import BROKEN_PIPE, INTERRUPTED
from stayer.cli.output import note

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_WRITE_ERRNOS = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


class LazyGroup(Group):
    """Imports a command's module when it is called, and knows enough to list it before."""

    listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        if self.listing:
            return click.RichCommand(name=cmd_name, help=verb.help, panel=verb.panel)
        from importlib import import_module

        found = getattr(import_module(f"stayer.cli.{cmd_name}"), cmd_name)
        assert isinstance(found, click.Command)
        return found

    @contextmanager
    def summaries(self) -> Iterator[None]:
        """Only names and summaries are asked for: nothing needs to be imported."""
        self.listing = True
        try:
            yield
        finally:
            self.listing = False

    def format_options(self, ctx: click.RichContext, formatter: click.RichHelpFormatter) -> None:  # type: ignore[override]
        with self.summaries():
            super().format_options(ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        with self.summaries():
            return super().shell_complete(ctx, incomplete)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> NoReturn:
        self._main_shell_completion(extra, "stayer", complete_var)
        sys.exit(self._run(list(sys.argv[1:] if args is None else args), extra))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return click.RichGroup.parse_args(self, ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, 1)
            hint = f": do you mean `stayer {near[0]}`?" if near else ""
            raise click.UsageError(f"there is no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def _run(self, arguments: list[str], extra: dict[str, Any]) -> int:
        """Run the command and return its exit code; what a user does wrong becomes one line."""
        _survive_any_encoding()
        try:
            _refuse_raw_bytes(arguments)
            at = count_shared(arguments)
            arguments = [*arguments[:at], *_translate(arguments[at:])]
            code = self._invoke(arguments, extra)
            if sys.stdout is not None:
                sys.stdout.flush()
        except (KeyboardInterrupt, EOFError, click.Abort):
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would make noise at exit
            return INTERRUPTED
        except click.ClickException as error:
            if type(error).__name__ == "NoArgsIsHelpError":  # `stayer cron`; click 8.1 has none
                click.echo(error.format_message())
            else:
                note(_format_click_error(error))
            return error.exit_code
        except OSError as error:
            return _print_system_error(error)
        except Exception as error:
            return _print_own_error(error)
        return code

    def _invoke(self, arguments: list[str], extra: dict[str, Any]) -> int:
        try:
            with self.make_context("stayer", arguments, **extra) as context:
                code = self.invoke(context)
                return code if isinstance(code, int) else 0
        except Exit as exit:
            return exit.exit_code


@click.command(
    "stayer",
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "rich_help_config": {
            "theme": "default-slim",
            "options_table_help_sections": ["help", "required"],
        },
    },
)
@click.version_option(__version__, prog_name="stayer")
@click.pass_context
def cli(context: click.Context) -> None:
    """A job queue for work that takes minutes, hours or days.

    New here? `stayer up` runs a worker and the web page. Then, in another terminal: `stayer run --
    echo hello`.
    """
    context.call_on_close(get_given(context).close)
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _translate(args: list[str]) -> list[str]:
    """Turn what people type from habit into the command that does it here."""
    match args:
        case ["help", *words]:
            return [*_translate(words), "--help"] if words else ["--help"]
        case ["version"]:
            return ["--version"]
        case ["status", *rest]:
            named = any(not word.startswith("-") for word in rest)
            return ["show" if named else "top", *rest]
        case [word, *rest] if word in HABITS:
            return [HABITS[word], *rest]
        case _:
            return args


def _format_click_error(error: click.ClickException) -> str:
    """Return what click says, on one line, with our hint at what to do."""
    message = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    path = context.command_path if context else "stayer"
    return f"{message[:1].lower()}{message[1:]} (see `{path} --help`)"


def _refuse_raw_bytes(arguments: Sequence[str]) -> None:
    """Refuse what no store could keep and no JSON can contain."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            shown = argument.encode("utf-8", "backslashreplace").decode()
            raise click.UsageError(f"argument {shown} is not UTF-8 text") from None


def _survive_any_encoding() -> None:
    """Write letters that the locale can't show as escapes, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _print_own_error(error: Exception) -> int:
    """Print one line about an error of ours; raise any other, which is a defect and shows where."""
    from stayer.core.errors import StayerError

    if not isinstance(error, StayerError):
        raise error
    note(str(error))
    return error.exit_code


def _print_system_error(error: OSError) -> int:
    """Print what the system refused: the working directory, or writing the output."""
    if isinstance(error, FileNotFoundError) and error.filename is None:
        note("this directory is gone: change to another one")
        return 2
    if error.errno not in _WRITE_ERRNOS:
        raise error
    with suppress(OSError, ValueError):  # what can't be written can't be flushed at exit either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if error.errno == errno.EPIPE:  # nobody reads on: `stayer ls | head`
        return BROKEN_PIPE
    note(f"can't write the output: {error.strerror}")
    return 1
