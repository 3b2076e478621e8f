"""Keys that are heard while something is drawn again and again."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HINT = "q quits"


class Keys:
    """Whether `q` was pressed."""

    has_input = False
    """There is a keyboard."""
    quit = False


@contextmanager
def keys() -> Iterator[Keys]:
    """Listen to the keyboard, if there is one; `q` interrupts as Ctrl-C does. The terminal is left
    as it was found.
    """
    found = Keys()
    if not _has_keyboard():
        yield found
        return
    import termios
    import tty

    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    stop_reader, stop_writer = os.pipe()
    listener = threading.Thread(target=_listen, args=(found, keyboard, stop_reader), daemon=True)
    try:
        tty.setcbreak(keyboard, termios.TCSANOW)
        found.has_input = True
        listener.start()
        yield found
    except KeyboardInterrupt:
        if not found.quit:
            raise
    finally:
        os.write(stop_writer, b"!")
        listener.join()
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        os.close(stop_writer)
        os.close(stop_reader)


def _has_keyboard() -> bool:
    """Return whether this is in the foreground: elsewhere, touching the terminal stops it."""
    try:
        keyboard = sys.stdin.fileno()
        return os.isatty(keyboard) and os.tcgetpgrp(keyboard) == os.getpgrp()
    except (AttributeError, OSError, ValueError):  # closed, or none
        return False


def _listen(found: Keys, keyboard: int, stop_reader: int) -> None:
    while True:
        ready, _, _ = select.select([keyboard, stop_reader], [], [])
        if stop_reader in ready:
            return
        pressed = os.read(keyboard, 100)
        if b"q" in pressed.lower():
            found.quit = True
            # Whatever it waits for.
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        if not pressed:
            return
