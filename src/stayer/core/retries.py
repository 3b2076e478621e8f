"""Whether a task that failed is worth another try, and when. Pure."""

from __future__ import annotations

import builtins
import zlib
from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from stayer.core.model import Ending, Fault, Policy

DEFAULT_WAIT = 10.0
"""Before the first retry, of tasks whose submitter says nothing."""
_SPREAD = 0.5
_BUILT_IN = tuple(
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
)
_SHORTEST_GUESS = 6
"""Shorter words are too near to each other."""


def is_retry_allowed(
    policy: Policy, failures: int, ending: Ending, fault: Fault, bases: Sequence[str]
) -> bool:
    """Return whether it may run again after so many failures, the last of this kind; `bases` are
    the classes that the error is also one of.
    """
    kinds = (fault.type, *bases)
    if failures > policy.retries or _matches_any(policy.give_up_on, ending, kinds):
        return False
    return not policy.retry_on or _matches_any(policy.retry_on, ending, kinds)


def class_name(kind: type[BaseException]) -> str:
    """Return the name of a class of errors, as patterns know it."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def base_names(kind: type[BaseException]) -> tuple[str, ...]:
    """Return the names of the classes that this one is derived from, nearest first."""
    found = (each for each in kind.__mro__[1:] if issubclass(each, BaseException))
    return tuple(class_name(each) for each in found if each is not BaseException)


def find_misspelling(pattern: str) -> str | None:
    """Return the built-in error that was probably meant by a word that is none, but nearly."""
    if pattern in _BUILT_IN or not pattern.isalpha() or len(pattern) < _SHORTEST_GUESS:
        return None
    for name in _BUILT_IN:
        if name.lower() == pattern.lower():
            return name
    import difflib

    near = difflib.get_close_matches(pattern, _BUILT_IN, 1, 0.9)
    return near[0] if near else None


def wait(policy: Policy, failures: int, id: str) -> float:
    """Seconds until the next try: longer each time, up to the cap, and spread, or all that failed
    together come back together. The same task at the same try always waits as long.
    """
    if policy.retry_wait <= 0:
        return 0.0
    # A float has no power so large: the cap is reached long before.
    growth = policy.retry_backoff ** min(failures - 1, 100)
    longest = min(policy.retry_cap, policy.retry_wait * growth)
    chance = zlib.crc32(f"{id} {failures}".encode()) / 2**32
    return longest * (1 - _SPREAD / 2 + _SPREAD * chance)


def raise_limits(policy: Policy, ending: Ending) -> Policy:
    """Return the policy for the next try, with higher limits if this one had too little."""
    if ending == "oom" and policy.memory_limit:
        larger = _step(policy.memory_limit, policy.memory_growth, policy.memory_most)
        return replace(policy, memory_limit=int(larger))
    if ending == "timeout" and policy.time_limit:
        longer = _step(policy.time_limit, policy.time_growth, policy.time_most)
        return replace(policy, time_limit=longer)
    return policy


def _step(limit: float, growth: float, most: float | None) -> float:
    return limit * growth if most is None else max(limit, min(limit * growth, most))


def _matches_any(patterns: tuple[str, ...], ending: Ending, kinds: Sequence[str]) -> bool:
    """Return whether a pattern matches: it means an ending (`oom`), or a type of error or one that
    this is derived from, with or without its module.
    """
    names = (ending, *kinds, *(kind.rpartition(".")[2] for kind in kinds))
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)
