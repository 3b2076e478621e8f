"""What MariaDB, MySQL and their drivers say went wrong, in our words."""

from __future__ import annotations

from stayer.core.errors import BadInput, StayerError, StoreError, StoreUnreachable, StoreUnusable

DUPLICATE = 1062
NOT_AS_EXPECTED = 1242
"""By `queue.expect_no_defaults`."""
SIGNALLED = 1644
"""By a trigger of ours."""
_NOT_SENT = 2006
"""The connection was broken before: the server did not get what was asked."""
_BROKEN_UP = frozenset((1213, 1205, 1020))
"""A deadlock of which this one was the victim, a lock that did not come, a row that has changed."""
_GONE = frozenset((0, 2000, 2006, 2013, 2014, 2027, 2055, 1053, 1077, 1079, 1080, 1158, 1159, 1160,
                   1161, 1317,
                   1927, 3169, 4031))  # fmt: skip
"""The connection is broken, was killed, or was closed for being idle."""
_UNREACHABLE = frozenset(
    (1040, 1129, 1203, 1226, 2001, 2002, 2003, 2004, 2005, 2011, 2012, 2024, 2025)
)
_NO_RIGHTS = frozenset(
    (1044, 1045, 1142, 1143, 1227, 1370, 1410, 1698, 1820, 1862, 3118, 3159, 2026, 2059, 2061)
)
_READ_ONLY = frozenset((1290, 1792, 1836, 3100, 3101, 4110))
_FULL = frozenset((1021, 1041, 1114, 3675))
_TOO_LARGE = frozenset((1153, 1301, 2020))
_NO_TABLES = frozenset((1054, 1146, 1049, 1356))
_REFUSED = frozenset((1048, 1062, 1264, 1265, 1300, 1364, 1366, 1406, 1644, 1690, 3140, 3141, 3819,
                      3156,
                      4025, 4038))  # fmt: skip


class BrokenUp(StoreUnreachable):
    """The server gave this transaction up for the sake of another: nothing was changed, and it may
    be tried again."""


class ConnectionLost(StoreUnreachable):
    """The connection broke. `unsure`: it was when the server had been asked to commit."""


def code_of(error: Exception) -> int:
    """The number of a driver's error; 0 if it has none."""
    code = error.args[0] if error.args else 0
    return code if isinstance(code, int) else 0


def is_gone(error: Exception) -> bool:
    """Whether the connection can't be used any more."""
    return code_of(error) in _GONE or isinstance(error, OSError)


def translation(url: str, error: Exception, *, committing: bool) -> StayerError:
    """Ours for a driver's error. `committing`: the server may have committed all the same."""
    code, said = code_of(error), _said(error)
    if code in _BROKEN_UP:
        return BrokenUp(f"{url}: others were in the way of this change ({said}): try again")
    if is_gone(error):
        committing = committing and code != _NOT_SENT
        lost = ConnectionLost(
            f"{url}: the connection broke ({said})"
            + (
                ". Whether the change was made is not known"
                if committing
                else ": nothing was changed"
            )
        )
        lost.unsure = committing
        return lost
    if code in _UNREACHABLE:
        return StoreUnreachable(f"{url} can't be reached: {said}. Is the server running?")
    if code in _REFUSED:
        return BadInput(f"{url} refuses this: {said}")
    return _unusable(url, code, said)


def _unusable(url: str, code: int, said: str) -> StoreError:
    if code == 1419:
        return StoreUnusable(
            f"{url}: this user may not make triggers, because the server keeps a binary log "
            f"({said}). Set "
            "log_bin_trust_function_creators = 1, or let an administrator run what `stayer init "
            "--sql` prints"
        )
    if code in _NO_RIGHTS:
        return StoreUnusable(
            f"{url}: {said}. Check user and password, and what the user is granted"
        )
    if code in _READ_ONLY:
        return StoreUnusable(f"{url} is read-only: nothing was changed ({said}). Is it a replica?")
    if code in _FULL or "errno: 28" in said or "No space left" in said:
        return StoreUnusable(
            f"the disk of {url} is full: nothing was changed ({said}). Free some space"
        )
    if code in _TOO_LARGE:
        return StoreUnusable(
            f"{url} takes no packets as large as this: nothing was changed ({said}). Set "
            "max_allowed_packet of the "
            "server to 64M"
        )
    if code in _NO_TABLES:
        return StoreUnusable(f"{url} has no Stayer tables, or old ones ({said}): run `stayer init`")
    return StoreUnusable(f"{url}: {said}")


def _said(error: Exception) -> str:
    return str(error.args[1]) if len(error.args) > 1 else str(error) or type(error).__name__
