"""Links of the pages to the source: for readers of the repository. The site has no source, so there
they are plain text. A hook of MkDocs, see mkdocs.yml.
"""

from __future__ import annotations

import re

_TO_SOURCE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+src/[^)]+\)")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Leave of each link to the source its text."""
    return _TO_SOURCE.sub(r"\1", markdown)
