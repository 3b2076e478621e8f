"""Asking before something is done that can't be undone."""

from __future__ import annotations

import rich_click as click

from stayer.cli.output import is_terminal, note
from stayer.core.errors import BadInput


def confirm(question: str, yes: bool) -> bool:
    """Ask whether to go on, unless `yes`; raises BadInput where there is nobody to ask."""
    if yes:
        return True
    if not is_terminal():
        raise BadInput(f"{question} There is no terminal to ask: say --yes to do it")
    if click.confirm(question, err=True):
        return True
    note("nothing was done")
    return False
