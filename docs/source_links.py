"""Links of the pages to files beside `docs`, such as the source: for readers of the repository. The
site has none of these, so there they are plain text. A hook of MkDocs, see mkdocs.yml.
"""

from __future__ import annotations

import re

_TO_SOURCE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:clients|contrib|src)/[^)]+\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Leave of each such link its text."""
    return _TO_SOURCE.sub(r"\1", markdown)
