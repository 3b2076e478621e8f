"""`notices`: who was told of which tasks, trying again, and hooks themselves."""

from __future__ import annotations

from itertools import islice

import rich_click as click

from stayer.cli.command import Given, Group, argument
from stayer.cli.common_options import json_option
from stayer.cli.output import note, plural, print_json, print_json_array, print_line, print_outcome
from stayer.cli.param_types import complete_task
from stayer.core.errors import BadInput
from stayer.core.notify.notices import NOTICE_STATES, NoticeState, notice_record
from stayer.service.control import notices as notice_control
from stayer.service.control import tasks as control
from stayer.store import Store

_IDS = argument(
    "ids", nargs=-1, metavar="[ID...]", help="Ids of notices; the beginning of one is enough."
)
_FAILED = click.option("--failed", is_flag=True, help="All that have failed.")


@click.group(cls=Group, invoke_without_command=True)
@click.option("--task", metavar="ID", help="Of this task.", shell_complete=complete_task)
@click.option(
    "--state",
    type=click.Choice(NOTICE_STATES),
    metavar="STATE",
    help=f"In this state: {', '.join(NOTICE_STATES)}.",
)
@click.option(
    "-n", "--limit", type=click.IntRange(1), default=50, metavar="N",
    help="How many at most. Default: 50.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print an array of notices, as JSON.")
@click.pass_context
def notices(
    context: click.Context, task: str | None, state: NoticeState | None, limit: int, as_json: bool
) -> None:
    """List notices to hooks; deliver them again, or test a hook.

    A task's hooks are named with --notify, a queue's with `stayer queues set`. A notice stays
    pending until it is delivered, or has failed too often.
    """
    if context.invoked_subcommand is not None:
        return
    given: Given = context.obj
    store = given.store()
    of = None if task is None else control.resolve(store, task)
    found = list(islice(notice_control.find_all(store, of, state), limit))
    if as_json:
        print_json_array(map(notice_record, found))
    elif not found:
        which = "such notices" if task or state else "notices yet"
        note(f"no {which} in {store.url}")
    else:
        from stayer.cli.notice_table import notices_table
        from stayer.cli.tables import draw

        draw(notices_table(found, store.now()))


@notices.command()
@_IDS
@_FAILED
@json_option
@click.pass_obj
def retry(given: Given, ids: tuple[str, ...], failed: bool, as_json: bool) -> None:
    """Deliver notices now: those that failed, or wait for their next try."""
    store = given.store()
    wanted = _choose(store, ids, failed)
    number = notice_control.retry(store, wanted)
    text = f"{plural(number, 'notice')} will be delivered"
    print_outcome(text, {"notices": number}, as_json)


@notices.command(name="rm")
@_IDS
@_FAILED
@json_option
@click.pass_obj
def rm_(given: Given, ids: tuple[str, ...], failed: bool, as_json: bool) -> None:
    """Forget notices, delivered or not."""
    store = given.store()
    wanted = _choose(store, ids, failed)
    number = notice_control.drop(store, wanted)
    print_outcome(f"{plural(number, 'notice')} forgotten", {"notices": number}, as_json)


def _choose(store: Store, ids: tuple[str, ...], failed: bool) -> list[str]:
    if bool(ids) == failed:
        raise BadInput("say which: ids of notices, or --failed for all that have failed")
    if failed:
        return [notice.id for notice in notice_control.find_all(store, state="failed")]
    return notice_control.resolve(store, ids)


@notices.command()
@argument("hook", metavar="HOOK", help="The name of a hook of stayer.toml, or a URL.")
@json_option
@click.pass_obj
def test(given: Given, hook: str, as_json: bool) -> int:
    """Send a hook a notice of an invented task, from here and now, and show the answer.

    It uses the settings of this stayer.toml; workers elsewhere may have others.
    """
    from stayer.service.notify.deliverer import sample, try_once
    from stayer.service.notify.settings import read_config

    whom = read_config(given.config())
    answered = try_once(whom, sample(whom, hook))
    if as_json:
        print_json({"delivered": answered.delivered, "summary": answered.summary})
    else:
        (print_line if answered.delivered else note)(answered.summary)
    return 0 if answered.delivered else 1


@notices.command()
@json_option
def secret(as_json: bool) -> None:
    """Print a new secret to sign notices with, for stayer.toml and for the receiver."""
    import base64
    import os

    from stayer.core.notify.hooks import SECRET

    made = SECRET + base64.b64encode(os.urandom(32)).decode()
    print_outcome(made, {"secret": made}, as_json)
