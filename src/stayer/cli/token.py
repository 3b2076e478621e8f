"""`token`: who may come in over HTTP."""

from __future__ import annotations

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.login_link import login_link, server_url
from stayer.cli.open_access import open_access
from stayer.cli.output import note, plural, print_json_array, print_outcome
from stayer.cli.param_types import DURATION, complete_queue
from stayer.core.errors import BadInput
from stayer.core.model import JSON
from stayer.core.submit import checks
from stayer.core.units import rfc3339
from stayer.http.token_records import ROLES, WORK, Role, Token
from stayer.http.tokens import Access, session_record

ROLE = f"{', '.join(ROLES)}: each may do what those before it may"


@click.group(cls=Group)
def token() -> None:
    """Make and remove tokens, login links and sessions for HTTP.

    They are kept, hashed, in the store, unless serve.access_file names a file. Every server of the
    store accepts a new one at once, and stops accepting a removed one within two seconds.
    """


@token.command()
@argument("name", metavar="NAME", help="Whose token it is.")
@click.option(
    "--role", type=click.Choice((*ROLES, WORK)), required=True, metavar="ROLE",
    help=f"One of {ROLE}; or {WORK}, for workers, with --queue.",
)  # fmt: skip
@click.option(
    "-q", "--queue", "queues", multiple=True, metavar="QUEUE", shell_complete=complete_queue,
    help="For this queue only: it can neither see nor change others. May be repeated.",
)  # fmt: skip
@click.option(
    "--expires", type=DURATION, metavar="DURATION",
    help="It stops working after this time, such as 30d. Default: when it is removed.",
)  # fmt: skip
@click.option(
    "--any-id", is_flag=True,
    help="With --queue: it may choose any id for its tasks, not only those that begin with the "
    "name of the queue and a colon.",
)  # fmt: skip
@json_option
@click.pass_obj
def add(
    given: Given,
    name: str,
    role: Role,
    queues: tuple[str, ...],
    expires: float | None,
    any_id: bool,
    as_json: bool,
) -> None:
    """Make a token and print it, only this once.

    Give it to a program as STAYER_TOKEN, or as `Authorization: Bearer …`.
    """
    for queue in queues:
        checks.new_task(queue=queue)  # checks the name
    if any_id and not queues:
        raise BadInput("--any-id goes with --queue: a token for all queues may choose any id")
    access = open_access(given)
    made = access.add(name, role, queues, life=expires, any_id=any_id)
    print_outcome(made, {"name": name, "role": role, "token": made}, as_json)
    _print_where_kept(access)


@token.command()
@click.option("--json", "as_json", is_flag=True, help="Print an array of tokens, as JSON.")
@click.pass_obj
def ls(given: Given, as_json: bool) -> None:
    """List tokens by name and role; the tokens themselves are not kept.

    When a token was last used is known within a minute.
    """
    access = open_access(given)
    if as_json:
        print_json_array(_record(access, known) for known in access.tokens())
    elif not access.tokens():
        note(f"no tokens in {access.where}: `stayer token add NAME --role submit` makes one")
    else:
        from stayer.cli.tables import cell, draw, grid

        table = grid("NAME*", "ROLE", "QUEUES*", "MADE", "USED", "EXPIRES")
        for known in access.tokens():
            table.add_row(
                cell(known.name), cell(known.role), cell(", ".join(known.queues) or "all"),
                cell(_time(known.created)), cell(_time(access.last_used_at(known)) or "never"),
                cell(_expiry(known)),
            )  # fmt: skip
        draw(table)


def _time(at: float | None) -> str | None:
    return None if at is None else f"{rfc3339(at)[:19].replace('T', ' ')} UTC"


def _expiry(known: Token) -> str:
    if known.expires is None:
        return "never"
    return _time(known.expires) or "" if known.is_valid() else "expired"


def _record(access: Access, known: Token) -> dict[str, JSON]:
    used = access.last_used_at(known)
    return {
        "name": known.name, "role": known.role, "queues": list(known.queues),
        "created": rfc3339(known.created), "used": None if used is None else rfc3339(used),
        "expires": None if known.expires is None else rfc3339(known.expires),
        "any_id": known.any_id,
    }  # fmt: skip


@token.command()
@argument("name", metavar="NAME", help="Whose token it is.")
@json_option
@click.pass_obj
def rm(given: Given, name: str, as_json: bool) -> None:
    """Remove a token; it and the sessions that it began stop working."""
    open_access(given).remove(name)
    print_outcome(f"{name} removed", {"name": name}, as_json)


@token.command()
@click.option("--json", "as_json", is_flag=True, help="Print an array of sessions, as JSON.")
@click.pass_obj
def sessions(given: Given, as_json: bool) -> None:
    """List the browsers that have logged in.

    A session ends 3 days after its last use, 30 days after its beginning, when somebody logs out,
    with its token, or with `stayer token logout`.
    """
    access = open_access(given)
    found = [session_record(access, each) for each in access.sessions()]
    if as_json:
        print_json_array(found)
    elif not found:
        note(f"no sessions in {access.where}")
    else:
        from stayer.cli.tables import cell, draw, grid

        table = grid("ID", "NAME*", "ROLE", "SINCE", "USED", "FROM")
        for each in access.sessions():
            table.add_row(
                cell(each.id), cell(each.name), cell(each.role), cell(_time(each.since)),
                cell(_time(access.last_use(each))), cell(each.address),
            )  # fmt: skip
        draw(table)


@token.command()
@argument("ids", metavar="ID...", nargs=-1, help="A session, as `stayer token sessions` lists it.")
@click.option("--all", "everybody", is_flag=True, help="All sessions.")
@json_option
@click.pass_obj
def logout(given: Given, ids: tuple[str, ...], everybody: bool, as_json: bool) -> None:
    """End sessions: their browsers have to log in again."""
    if bool(ids) == everybody:
        raise BadInput("say which: ids of sessions, or --all")
    access = open_access(given)
    known = {each.id for each in access.sessions()}
    for id in ids:
        if id not in known:
            raise BadInput(f"there is no session {id!r}: `stayer token sessions` lists them")
    number = access.end_sessions(None if everybody else ids)
    print_outcome(f"{plural(number, 'session')} ended", {"sessions": number}, as_json)


@token.command()
@click.option(
    "--role", type=click.Choice(ROLES), default="operate", metavar="ROLE",
    help=f"What may be done then: {ROLE}. Default: operate.",
)  # fmt: skip
@click.option(
    "--url", metavar="URL", help="Where the server is. Default: from [serve] of stayer.toml."
)
@json_option
@click.pass_obj
def link(given: Given, role: Role, url: str | None, as_json: bool) -> None:
    """Print a link to log in with a browser, once, within ten minutes."""
    access = open_access(given)
    made = login_link((url or server_url(given)).rstrip("/"), access.make_code(role))
    print_outcome(made, {"link": made, "role": role}, as_json)
    _print_where_kept(access)


def _print_where_kept(access: Access) -> None:
    """Say where tokens are kept: another folder may have another store."""
    note(f"saved in {access.where}: {access.accepted_by}")
