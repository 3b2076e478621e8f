"""Functions whose text follows from a table: the codecs that every reserve and submit goes through.

A loop over the table would take several times as long as one expression that names every field, so
that expression is written once, when the module is imported.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from typing import Any


def function(name: str, source: str, known: Mapping[str, Any]) -> Callable[..., Any]:
    """Compile the source and return its function of this name; `known` are the names that it may
    use. Tracebacks show its lines.
    """
    file = f"<made of core/fields.py: {name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace = dict(known)
    exec(compile(source, file, "exec"), namespace)
    made: Callable[..., Any] = namespace[name]
    return made
