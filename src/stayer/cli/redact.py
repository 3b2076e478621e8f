"""URLs of stores without their passwords, for whoever looks over a shoulder."""

from __future__ import annotations

import re

_PASSWORD = re.compile(r"(://[^:/?#@]*):.*@")
_PASSWORD_OPTION = re.compile(r"([?&]\w*password)=[^&]*")


def redact_passwords(url: str) -> str:
    """Put stars in the place of the passwords in a store's URL."""
    return _PASSWORD.sub(r"\1:***@", _PASSWORD_OPTION.sub(r"\1=***", url))
