"""Nothing unprintable reaches a log."""

from __future__ import annotations

import logging
import sys

from stayer.core.safe_text import PrintableLines

FORGED = "x\n2026-01-01 00:00:00,000 INFO task payroll is complete\r\x1b]0;pwn\x07\u202e\x85\u2028"


def record(message: str, *, failed: bool = False) -> str:
    found = None
    if failed:
        try:
            raise ValueError(FORGED)
        except ValueError:
            found = sys.exc_info()
    made = logging.LogRecord("n", logging.WARNING, __file__, 1, "said: %s", (message,), found)
    return PrintableLines().format(made)


def test_a_record_is_one_line_of_printable_characters() -> None:
    line = record(FORGED)
    assert line.isprintable()
    assert "said: x\\n2026-01-01" in line


def test_lines_of_a_traceback_can_not_be_taken_for_records() -> None:
    first, *rest = record("odd", failed=True).split("\n")
    assert first.endswith("WARNING said: odd")
    assert rest
    assert all(line.startswith("    ") and line.isprintable() for line in rest)
