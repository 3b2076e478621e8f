"""Text that does no harm where it is shown: no terminal obeys it, and it forges no line."""

from __future__ import annotations

import logging
from typing import Literal, get_args

LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
FORM = "%(asctime)s %(levelname)s %(message)s"


def printable(text: str, *, lines: bool = False) -> str:
    """Escape whatever a terminal might obey; `lines` keeps lines."""
    if text.isprintable():
        return text
    kept = "\n\t" if lines else ""
    return "".join(
        letter if letter.isprintable() or letter in kept else ascii(letter)[1:-1] for letter in text
    )


class PrintableLines(logging.Formatter):
    """A line a record, whatever is quoted in it: items, answers and names are not ours. Lines of a
    traceback are indented, so that none of them looks like a record.
    """

    def __init__(self) -> None:
        super().__init__(FORM)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # logging's name
        return printable(super().formatMessage(record))

    def formatException(self, ei: object) -> str:  # noqa: N802
        return _indent(super().formatException(ei))  # type: ignore[arg-type]

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        return _indent(super().formatStack(stack_info))


def _indent(text: str) -> str:
    return "\n".join(f"    {printable(line)}" for line in text.splitlines())


def log_printably(handler: logging.Handler | None = None, level: LogLevel = "info") -> None:
    """Let this process log so, to stderr unless told otherwise."""
    handler = logging.StreamHandler() if handler is None else handler
    handler.setFormatter(PrintableLines())
    logging.basicConfig(handlers=[handler])
    set_log_level(level)


def set_log_level(level: LogLevel) -> None:
    """Log what is at least as important as this. What libraries have to say for those who mend them
    is left out in any case.
    """
    logging.getLogger("stayer").setLevel(level.upper())
    logging.getLogger().setLevel(max(logging.INFO, logging.getLogger("stayer").level))
