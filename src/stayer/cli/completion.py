"""`completion`: the script that a shell needs to complete words after `stayer`."""

from __future__ import annotations

import rich_click as click
from click.shell_completion import get_completion_class

from stayer.cli.command import Given, argument, command

VARIABLE = "_STAYER_COMPLETE"


@command()
@argument(
    "shell",
    type=click.Choice(["bash", "zsh", "fish"]),
    metavar="bash|zsh|fish",
    help="The shell that it is for.",
)
@click.pass_context
def completion(context: click.Context, given: Given, shell: str) -> None:
    """Print the completion script for a shell.

    For bash, add `eval "$(stayer completion bash)"` to ~/.bashrc; for zsh, `eval "$(stayer
    completion zsh)"` to ~/.zshrc; for fish, `stayer completion fish | source` to
    ~/.config/fish/config.fish.
    """
    completer = get_completion_class(shell)
    assert completer is not None
    click.echo(completer(context.find_root().command, {}, "stayer", VARIABLE).source())
