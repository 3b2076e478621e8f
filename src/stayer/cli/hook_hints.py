"""Saying when a task is submitted what would else be said when it has ended: that a hook has a slip
in its name, or that a URL is one that workers don't call.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from stayer.cli.output import note
from stayer.config import Config
from stayer.core.notify import hooks
from stayer.core.notify.notices import is_url


def hint_at_hooks(config: Config, notify: Sequence[str]) -> None:
    """Warn of hooks that this configuration does not know, and of URLs that it does not allow. The
    what workers say counts: theirs may be another one.
    """
    for written in notify:
        target = written.partition(":")[2]
        if is_url(target):
            _hint_at_url(config, target)
        elif config.hooks and target not in config.hooks:
            note(
                f"warning: no hook is called {target!r} in stayer.toml: there are "
                f"{', '.join(sorted(config.hooks))}"
            )


def _hint_at_url(config: Config, url: str) -> None:
    host = urlsplit(url).hostname or ""
    address = "127.0.0.1" if host == "localhost" else host
    try:
        is_public = hooks.is_public(address)
    except ValueError:
        return  # a name: where that leads is known when it is called
    allowed = config.notices.get("hosts")
    if not is_public and not (allowed and hooks.is_named(allowed, host, [address])):
        note(
            f"warning: {host} leads to this machine or network: workers don't call it, unless "
            "`hosts` in [notices] of their stayer.toml names it"
        )
