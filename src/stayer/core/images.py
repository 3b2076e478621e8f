"""Names of container images: which ones a task may ask for, and what a short one stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stayer.core.errors import BadInput
from stayer.core.limits import check_length, quote
from stayer.core.patterns import ANYTHING, matches_place

LOCAL = "localhost/"
"""How the full name of an image begins that was made on the machine itself, and is never pulled."""
_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:(?P<host>[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?(?::\d{{1,5}})?)/)??"
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def check_image(image: str) -> str:
    """Return the name of an image; BadInput if an engine could take it for something else."""
    check_length("image", image)
    if not _IMAGE.fullmatch(image):
        raise BadInput(
            f"image {quote(image)}: write a name as in python:3.12, or HOST/NAME:TAG; files and "
            "options are not taken"
        )
    return image


def _names_registry(name: str) -> bool:
    """Return whether a name, or a pattern, begins with a registry, not with a folder of the Hub."""
    first, slash, _ = name.partition("/")
    return bool(slash) and ("." in first or ":" in first or first in ("localhost", ANYTHING))


def full_name(image: str) -> str:
    """Return the name with its registry: `python` is `docker.io/library/python:latest`."""
    name, at, digest = image.partition("@")
    if "/" not in name:
        name = f"docker.io/library/{name}"
    elif not _names_registry(name):
        name = f"docker.io/{name}"
    is_exact = at or ":" in name.rpartition("/")[2]
    return f"{name}{at}{digest}" if is_exact else f"{name}:latest"


def repository_of(image: str) -> str:
    """Return the full name without tag and digest."""
    name = full_name(image).partition("@")[0]
    start, slash, last = name.rpartition("/")
    return f"{start}{slash}{last.partition(':')[0]}"


def is_digest(text: object) -> bool:
    """Return whether this is what exactly names the content of an image."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def is_allowed(image: str, patterns: Sequence[str]) -> bool:
    """Return whether a pattern stands for the image: by its full name if the pattern says which
    registry, else only if it is written without one.
    """
    if ANYTHING in patterns:
        return True
    short = None if _names_registry(image) else image
    return any(
        matches_place(full_name(image), pattern)
        if _names_registry(pattern)
        else short is not None and matches_place(short, pattern)
        for pattern in patterns
    )


def digest_of(image: str) -> str | None:
    """Return the digest that a name has, if it has one: it can stand for nothing else."""
    return image.partition("@")[2] or None
