"""A task's output on a terminal: colours stay, what else a terminal might obey is written out."""

from __future__ import annotations

import codecs
import os
import re

from stayer.cli.output import safe

_COLOUR = re.compile(r"(\x1b\[[0-9;:]{0,40}m)")
_UNFINISHED = re.compile(r"(\x1b(\[[0-9;:]{0,40})?|\r+)\Z")
_RETURNS = re.compile(r"\r+\n?")
_RESET = "\x1b[0m"


class SafeOutput:
    """Makes bytes that come in pieces fit for a screen, also where a piece ends in mid-letter."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._held_back = ""
        self._coloured = False
        self._colours = not os.environ.get("NO_COLOR")

    def feed(self, data: bytes) -> bytes:
        """Return what can be shown by now."""
        text = self._held_back + self._decoder.decode(data)
        unfinished = _UNFINISHED.search(text)
        whole = len(text) if unfinished is None else unfinished.start()
        self._held_back = text[whole:]
        return self._escape(text[:whole])

    def end(self) -> bytes:
        """Return the rest, and what brings back the terminal's own colours."""
        rest = self._escape(self._held_back + self._decoder.decode(b"", True))
        self._held_back = ""
        coloured, self._coloured = self._coloured, False
        return rest + (_RESET.encode() if coloured else b"")

    def _escape(self, text: str) -> bytes:
        parts = _COLOUR.split(text)
        for index, part in enumerate(parts):
            if index % 2 == 0:
                # A progress bar goes back to draw itself anew, and so could anybody who wants to
                # cover a line: each is a line of its own.
                parts[index] = safe(_RETURNS.sub("\n", part), lines=True)
            elif self._colours:
                self._coloured = part not in (_RESET, "\x1b[m")
            else:
                parts[index] = ""
        return "".join(parts).encode("utf-8", "backslashreplace")
