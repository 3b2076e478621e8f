"""`config`: each setting, and where it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click
from msgspec.structs import replace

from stayer import config as configuration
from stayer.cli.command import Given, command
from stayer.cli.output import print_json, print_line
from stayer.cli.redact import redact_passwords
from stayer.cli.worker_options import hidden_worker_options, worker_settings
from stayer.config.writing import write as write_settings
from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.units import format_duration

_WIDE_COLUMNS = 140
"""How wide a terminal must be to explain each setting too."""


@command()
@click.option("--json", "as_json", is_flag=True, help="Print the settings, as JSON.")
@click.option(
    "--write", metavar="FILE", help="Write the settings that are not default to this file."
)
@click.option("--force", is_flag=True, help="With --write: also if the file is there.")
@hidden_worker_options
def config(given: Given, as_json: bool, write: str | None, force: bool, **worker: Any) -> None:
    """Show each setting and where it comes from.

    A flag comes before the environment, the environment before the file (stayer.toml here or
    in the nearest folder above, else the one in ~/.config/stayer), the file before the default.

    With --write, options of `stayer worker` become settings of the file: `stayer config --write
    films.toml --queue encode --slots 4`.
    """
    found = given.config()
    flags = worker_settings(found, worker)
    if flags and write is None:
        raise BadInput(f"--{next(iter(flags)).replace('_', '-')} is for --write FILE")
    found = replace(found, worker={**found.worker, **flags})
    if write is not None:
        write_settings(found, Path(write), overwrite=force)
        print_line(f"{write} is written")
    elif as_json:
        print_json({name: _entry(found, name, value) for name, value in _values(found).items()})
    else:
        _print_table(found)


def _values(found: configuration.Config) -> dict[str, Any]:
    """Return every setting, and what the file says about workers and the server."""
    return {
        **{name: getattr(found, name) for name in configuration.SETTINGS},
        "token": "***" if found.token else "",
        **{f"worker.{name}": _redact_secret(name, value) for name, value in found.worker.items()},
        **{f"serve.{name}": value for name, value in found.serve.items()},
        **{f"retention.{name}": value for name, value in found.retention.items()},
        **{f"notices.{name}": _redact_secret(name, value) for name, value in found.notices.items()},
        **{f"hooks.{name}": _describe_hook(hook) for name, hook in found.hooks.items()},
    }


def _redact_secret(name: str, value: Any) -> Any:
    if name == "secret":
        return "***"
    if name == "code_env":
        return tuple(f"{variable.partition('=')[0]}=***" for variable in value)
    return tuple(value) if isinstance(value, list) else value


def _describe_hook(hook: dict[str, Any]) -> str:
    """Return a hook's command, whom it mails, or its host: the rest may be a secret."""
    if "command" in hook:
        return " ".join(hook["command"])
    if "to" in hook:
        to = hook["to"] if isinstance(hook["to"], list) else [hook["to"]]
        return f"mail to {', '.join(to)}"
    return f"{'/'.join(hook['url'].split('/', 3)[:3])}/…"


def _entry(found: configuration.Config, name: str, value: Any) -> JSON:
    shown = list(value) if isinstance(value, tuple) else _redact(value)
    return {"value": shown, "source": found.sources.get(name, found.file or "")}


def _redact(value: str | float) -> str | float:
    """Hide passwords in URLs from whoever looks over a shoulder."""
    return redact_passwords(value) if isinstance(value, str) else value


def _format(value: str | float | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return " ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return format_duration(value) if isinstance(value, float) else str(_redact(value))


def _print_table(found: configuration.Config) -> None:
    from stayer.cli.tables import cell, console, draw, grid

    roomy = console().width >= _WIDE_COLUMNS
    table = grid("SETTING", "VALUE*", "FROM*", *([""] if roomy else []))
    for name, value in _values(found).items():
        source = found.sources.get(name, found.file or "")
        setting = configuration.SETTINGS.get(name)
        table.add_row(
            cell(name),
            cell(_format(value), "bold"),
            cell(source, "dim" if source == configuration.DEFAULT else ""),
            *([cell(setting and setting.help, "dim")] if roomy else []),
        )
    draw(table)
