"""What a row written by hand has to be, as the triggers of every database take it from the table of
fields.
"""

from __future__ import annotations

from stayer.core.fields import FIELDS, STORED
from stayer.core.limits import Most
from stayer.core.model import Policy

POLICY = tuple(field for field in FIELDS if field.home is Policy)
"""What is in the JSON object `policy`."""
OF_QUEUE = tuple(field for field in STORED if field.row.of_queue)
"""Columns that a queue may have a default for."""


def longest() -> dict[str, Most]:
    """Return the columns of plain text that a submission may set, and how long each may be."""
    return {
        field.name: most
        for field in STORED
        if field.set_by == "submitter" and field.kind == "text" and (most := field.most)
    }


def too_long(name: str, most: Most) -> str:
    """Say that a column holds too much."""
    return f"stayer: {name} has at most {most.characters:,} characters"


def revision(of_script: int) -> str:
    """Return the revision of a trigger whose script has this one. Fields are only ever added, so
    whoever knows more of them has the newer trigger.
    """
    return str(100 * of_script + len(FIELDS))
