"""`serve`: the HTTP API and the web page."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import rich_click as click

from stayer.cli.command import Given, command
from stayer.cli.log_level import chosen_level, with_log_level
from stayer.cli.login_link import login_link, server_url
from stayer.cli.output import note, print_line
from stayer.cli.param_types import SIZE
from stayer.config.parsing import parse_prefix
from stayer.core.errors import BadConfig, BadInput, StoreError
from stayer.core.extras import how_to_install
from stayer.core.safe_text import LogLevel, log_printably

if TYPE_CHECKING:
    from stayer.http.service import Settings
    from stayer.http.tokens import Access

_LIST_SETTINGS = ("host_names", "trusted_proxies")


@command()
@click.option("--host", metavar="ADDRESS", help="Listen on this address. Default: 127.0.0.1.")
@click.option(
    "--port", type=click.IntRange(0, 65535), metavar="N",
    help="Listen on this port; 0 for any that is free. Default: 8787.",
)  # fmt: skip
@click.option(
    "--host-name", "host_names", multiple=True, metavar="NAME",
    help="Answer to this name too, such as tasks.example.org. May be repeated.",
)  # fmt: skip
@click.option(
    "--root-path", metavar="PATH", help="The path below which a proxy serves it, such as /stayer."
)
@click.option(
    "--trusted-proxy", "trusted_proxies", multiple=True, metavar="ADDRESS",
    help="Believe what this proxy says of its clients (X-Forwarded-For, -Proto). May be repeated.",
)  # fmt: skip
@click.option(
    "--access-file", metavar="FILE", help="Keep tokens in this file. Default: in the store."
)
@click.option(
    "--audit-log", metavar="FILE", help="Write here who changed what. Default: to the log."
)
@click.option(
    "--body-limit", type=SIZE, metavar="SIZE", help="The largest request. Default: 16 MB."
)
@click.option("--certificate", metavar="FILE", help="Serve https with this certificate (PEM).")
@click.option("--private-key", metavar="FILE", help="The private key of the certificate (PEM).")
@with_log_level
@click.option(
    "--login-link", is_flag=True,
    help="Print a login link even if stdout is not a terminal, such as a log.",
)  # fmt: skip
@click.option("--parent", type=int, hidden=True, help="End when this process does.")
def serve(given: Given, parent: int | None, login_link: bool, **options: Any) -> None:
    """Serve the HTTP API and the web page, and print a login link.

    Only this machine can reach it unless --host says otherwise. Programs need a token: see `stayer
    token`. What is not given here comes from the table [serve] of stayer.toml.
    """
    from stayer.cli.hide_credentials import hide_credentials

    run = _server()
    hide_credentials()
    if parent is not None:
        _die_with(parent)
    config = given.config()
    chosen = {**config.serve, **{name: value for name, value in options.items() if value}}
    if options["port"] == 0:
        chosen["port"] = 0
    file = chosen.pop("access_file", None)
    level = chosen_level(chosen)
    for name in ("log_level", "verbose", "quiet"):
        chosen.pop(name, None)
    run(given, chosen, file, level, login_link or sys.stdout.isatty())


def _server() -> Any:
    """Import what a server needs; a plain installation has none."""
    try:
        import httptools  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise BadConfig(f"the server is not installed: {how_to_install('web')}") from None
    return _run


def _run(
    given: Given, chosen: dict[str, Any], file: str | None, level: LogLevel, show_link: bool
) -> None:
    from stayer.cli.open_access import open_access
    from stayer.http.server import Server
    from stayer.http.service import Settings
    from stayer.service.notify.deliverer import deliver_meanwhile

    config = given.config()
    try:
        chosen["root_path"] = parse_prefix(chosen.get("root_path", ""))
    except BadInput as error:
        raise BadInput(f"--root-path: {error}") from None
    for name in _LIST_SETTINGS:
        chosen[name] = tuple(chosen.get(name, ()))
    settings = Settings(
        **chosen,
        queue=config.queue,
        retries=config.retries,
        retention=config.kept,
        names_submitters=bool(config.submitter),
    )
    store = given.store(make=True)
    access = open_access(given, file)
    log_printably(level=level)
    server = Server(store, access, settings)
    print_line(f"serving {store.url} at {server.url}")
    _print_login(given, server.url, access, show_link)
    if _is_unencrypted(settings):
        note(
            f"warning: http://{settings.host} is not encrypted, tokens can be read on the way: "
            "give --certificate and --private-key, or let a proxy with TLS reach it on 127.0.0.1"
        )
    if file is not None:
        note(f"tokens are read from {access.where}")
    if not access.tokens():
        note("no tokens yet: `stayer token add NAME --role submit` makes one for a program")
    with deliver_meanwhile(store, given.config, is_server=True):
        server.serve_now()


def _print_login(given: Given, url: str, access: Access, show_link: bool) -> None:
    if show_link:
        try:
            print_line(f"log in, once, within ten minutes: {login_link(url, access.make_code())}")
        except StoreError as error:  # it serves all the same, perhaps only to be read
            note(f"no login link (`stayer token link` prints one later): {error}")
    else:
        option = "" if url == server_url(given) else f" --url {url}"
        print_line(
            f"log in: `stayer token link{option}` prints a link (not shown here: this may be a log)"
        )


def _is_unencrypted(settings: Settings) -> bool:
    """Return whether other machines reach it, without TLS."""
    from stayer.http.limits import is_local

    return settings.certificate is None and not (
        settings.host == "localhost" or is_local(settings.host)
    )


def _die_with(parent: int) -> None:
    """End with the parent: a server that `stayer up` started must not outlive it. Linux only."""
    import ctypes

    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:
        raise BadInput("the process that started this server has ended")
