"""Names of container images: which ones a task may ask for, and what a short one stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stayer.core.errors import BadInput
from stayer.core.limits import check_length, quote
from stayer.core.patterns import any_matches

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


def full_name(image: str) -> str:
    """Return the name with its registry: `python` is `docker.io/library/python:latest`."""
    name, at, digest = image.partition("@")
    first, _, rest = name.partition("/")
    if not rest:
        name = f"docker.io/library/{name}"
    elif "." not in first and ":" not in first and first != "localhost":
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
    """Return whether a pattern stands for the image, as it is written or by its full name."""
    return any(any_matches(name, patterns) for name in (image, full_name(image)))
