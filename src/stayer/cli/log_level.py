"""How much a worker or a server logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import rich_click as click

from stayer.cli.command import Decorated
from stayer.core.errors import BadInput
from stayer.core.safe_text import LOG_LEVELS, LogLevel

log_level_options = (
    click.option(
        "--log-level",
        type=click.Choice(LOG_LEVELS),
        help="What to log: what is at least as important as this (info).",
    ),
    click.option("-v", "--verbose", is_flag=True, help="Short for --log-level debug."),
    click.option("--quiet", is_flag=True, help="Short for --log-level warning."),
)


def with_log_level(function: Decorated) -> Decorated:
    """Add these options to a command."""
    decorated: Any = function
    for option in reversed(log_level_options):
        decorated = option(decorated)
    return cast(Decorated, decorated)


def chosen_level(given: Mapping[str, Any]) -> LogLevel:
    """Return what the options, or else the file, say."""
    verbose, quiet = given.get("verbose"), given.get("quiet")
    if verbose and quiet:
        raise BadInput("give --verbose or --quiet, not both")
    chosen = "debug" if verbose else "warning" if quiet else given.get("log_level") or "info"
    return cast(LogLevel, chosen)
