"""`token`: who may come in over HTTP."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.output import note, print_json_array, say
from stayer.cli.values import complete_queue
from stayer.config import access_file
from stayer.core import submission
from stayer.core.model import JSON
from stayer.core.units import rfc3339
from stayer.http.access import ROLES, Access, Role, Token

ROLE = f"{', '.join(ROLES)}: each may do what those before it may."


@click.group(cls=Group)
def token() -> None:
    """Make and remove tokens for the HTTP API, and login links.

    Kept, hashed, in stayer.access.json beside stayer.toml (or in ~/.config/stayer). A server
    notices at once.
    """


def _access(given: Given) -> Access:
    return Access(Path(access_file(given.config())))


@token.command()
@argument("name", metavar="NAME", help="Whose token it is.")
@click.option(
    "--role", type=click.Choice(ROLES), required=True, metavar="ROLE", help=f"One of {ROLE}"
)
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="QUEUE", shell_complete=complete_queue,
    help="For this queue only: others it neither sees nor touches. May be repeated.",
)  # fmt: skip
@click.pass_obj
def add(given: Given, name: str, role: Role, queues: tuple[str, ...]) -> None:
    """Make a token and print it, this once.

    Give it to a program as STAYER_TOKEN, or as `Authorization: Bearer …`.
    """
    for queue in queues:
        submission.new_task(queue=queue)  # checks the name
    access = _access(given)
    say(access.add(name, role, queues))
    _tell_where(given, access)


@token.command()
@click.option("--json", "as_json", is_flag=True, help="Print an array of tokens, as JSON.")
@click.pass_obj
def ls(given: Given, as_json: bool) -> None:
    """List tokens by name and role; what opens is not kept."""
    access = _access(given)
    if as_json:
        print_json_array(map(_record, access.tokens()))
    elif not access.tokens():
        note(f"no tokens in {access.path}")
    else:
        from stayer.cli.tables import cell, draw, grid

        table = grid("NAME*", "ROLE", "QUEUES*", "MADE")
        for known in access.tokens():
            table.add_row(
                cell(known.name), cell(known.role), cell(", ".join(known.queues) or "all"),
                cell(rfc3339(known.created)),
            )  # fmt: skip
        draw(table)


def _record(known: Token) -> dict[str, JSON]:
    return {
        "name": known.name, "role": known.role, "queues": list(known.queues),
        "created": rfc3339(known.created),
    }  # fmt: skip


@token.command()
@argument("name", metavar="NAME", help="Whose token it is.")
@click.pass_obj
def rm(given: Given, name: str) -> None:
    """Remove a token; it opens nothing any more, nor do sessions that it began."""
    _access(given).remove(name)
    say(f"{name} removed")


@token.command()
@click.option(
    "--role", type=click.Choice(ROLES), default="operate", metavar="ROLE",
    help=f"What may be done then: {ROLE} Default: operate.",
)  # fmt: skip
@click.option("--url", metavar="URL", help="Where the server is. Default: as [serve] says.")
@click.pass_obj
def link(given: Given, role: Role, url: str | None) -> None:
    """Print a link to log in with a browser, once, within ten minutes."""
    from stayer.cli.serve import login_link

    access = _access(given)
    say(login_link((url or _served_at(given)).rstrip("/"), access.make_code(role)))
    _tell_where(given, access)


def _tell_where(given: Given, access: Access) -> None:
    """Another folder has another file, and a server reads but one."""
    note(f"kept in {access.path}: for a server that reads that file, as one started here does")
    if given.config().store.startswith(("http://", "https://")):
        note("that is not the server you talk to: make tokens on its machine, where it is started")


def _served_at(given: Given) -> str:
    """Where `stayer serve` with the same settings would be found."""
    serve = given.config().serve
    scheme = "https" if serve.get("certificate") else "http"
    names = serve.get("host_names") or (serve.get("host", "127.0.0.1"),)
    host = "localhost" if names[0] in ("0.0.0.0", "::") else names[0]
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}:{serve.get('port', 8787)}{serve.get('root_path', '')}"
