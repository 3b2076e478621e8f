"""`mcp`: let an assistant use the store, over the Model Context Protocol."""

from __future__ import annotations

import os
import sys

import rich_click as click

from stayer.cli.command import Given, command


@command()
@click.option("--read-only", is_flag=True, help="Let it look, and change nothing.")
@click.option(
    "--allow-commands",
    is_flag=True,
    help="Let it submit commands, not only functions: whatever workers with --allow-commands run.",
)
def mcp(given: Given, read_only: bool, allow_commands: bool) -> None:
    """Let an assistant submit, watch, explain and cancel tasks, over MCP.

    An assistant that speaks the Model Context Protocol starts this, and talks to it on its
    standard input and output. With --store https://… and STAYER_TOKEN it has the rights of that
    token; with the URL of a database, those of the database.
    """
    from stayer.client import Client
    from stayer.mcp.server import McpServer
    from stayer.mcp.tools import Toolbox

    client = Client._over(given.store())
    tools = Toolbox(client, read_only=read_only, allow_commands=allow_commands)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anybody prints must not come between the answers
    try:
        McpServer(tools, sys.stdin.buffer, answers).run()
    except KeyboardInterrupt:
        pass
    finally:
        answers.close()
