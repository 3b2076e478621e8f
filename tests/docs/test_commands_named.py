"""Pages that name many commands name ones that there are, with options that they have."""

from __future__ import annotations

import pytest

from tests.docs.named import commands, look_up_command

PAGES = (
    "how-to/back-up-and-restore.md",
    "how-to/rotate-tokens-and-secrets.md",
    "how-to/troubleshoot.md",
    "how-to/upgrade.md",
    "how-to/watch-with-prometheus.md",
    "explanation/coming-from-other-queues.md",
    "how-to/coming-from.md",
)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_commands_and_options_that_there_are(page: str) -> None:
    named = commands(page)
    assert named
    for words in named:
        look_up_command(words)
