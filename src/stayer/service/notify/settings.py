"""Hooks and rules as the configuration has them now: read again when its files change."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from stayer.core.errors import BadConfig, BadInput, StayerError
from stayer.core.notify import hooks
from stayer.core.notify.hooks import Hook, Rules
from stayer.core.notify.mail import PASSWORD_VARIABLE, Mail

if TYPE_CHECKING:
    from stayer.config import Config

logger = logging.getLogger("stayer.service.notify")

LEASE_MARGIN_S = 30.0
"""How much longer than a try may take a notice is kept from others, in seconds."""
_LOOK_S = 2.0
"""How often files are looked at, in seconds."""
_STOP_TIMEOUT_S = 2.0


class Whom(Struct, frozen=True, kw_only=True):
    """All that can be delivered from here, with the secrets to sign it."""

    rules: Rules = Rules()
    hooks: dict[str, Hook] = {}
    secrets: dict[str, tuple[str, ...]] = {}
    """By the name of the hook; '' for URLs that tasks name. A mail server's is its password."""
    margin: float = LEASE_MARGIN_S

    @property
    def names(self) -> tuple[str, ...]:
        """The hooks that can be reached; '' for URLs that tasks name."""
        return ("", *self.hooks)

    @property
    def lease(self) -> float:
        """How long a notice is kept from others."""
        limits = [self.rules.time_limit, *(hook.time_limit for hook in self.hooks.values())]
        return max(limits) + self.margin


def read_config(config: Config) -> Whom:
    """Read what the file says; raises BadConfig where a secret can't be read."""
    rules = hooks.read_rules(config.notices)
    found = {name: hooks.read_hook(name, table) for name, table in config.hooks.items()}
    secrets = {name: _secrets(f"hooks.{name}", hook) for name, hook in found.items()}
    return Whom(rules=rules, hooks=found, secrets={**secrets, "": _secrets("notices", rules)})


def _secrets(what: str, of: Hook | Rules) -> tuple[str, ...]:
    if isinstance(of, Hook) and of.mail is not None:
        return _password(what, of.mail)
    if of.secret_file is None:
        return of.secrets
    try:
        text = Path(of.secret_file).read_text(encoding="utf-8")
        return (*of.secrets, *hooks.parse_secrets(text))
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"{what}: {of.secret_file} can't be read: {error}") from None
    except BadInput as error:
        raise BadConfig(f"{what}: {of.secret_file}: {error}") from None


def _password(what: str, mail: Mail) -> tuple[str, ...]:
    """Find the password of a mail server, where one is needed."""
    if mail.user is None:
        return ()
    found = mail.password or os.environ.get(PASSWORD_VARIABLE)
    if mail.password_file is not None:
        try:
            found = Path(mail.password_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfig(f"{what}: {mail.password_file} can't be read: {error}") from None
    if not found:
        raise BadConfig(
            f"{what}: there is no password for {mail.user}: write it to a file and name that with "
            f"password_file, or set {PASSWORD_VARIABLE}"
        )
    return (found,)


class LiveSettings:
    """What the configuration says of hooks, followed while it changes. What can't be read leaves
    everything as it was.
    """

    def __init__(self, read: Callable[[], Config]) -> None:
        self._read = read
        config = read()
        self._file = Path("stayer.toml").resolve() if config.file is None else Path(config.file)
        self._seen = self._fingerprint(config)
        self._config = config
        self.whom = read_config(config)

    def look(self) -> bool:
        """Read the files again if they have changed, and say in the log what that changes; whether
        anything did.
        """
        seen = self._fingerprint(self._config)
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            config = self._read()
            whom = read_config(config)
        except StayerError as error:
            logger.warning("hooks stay as they were: %s", error)
            return False
        self._seen = self._fingerprint(config)
        changes = _describe(self.whom, whom)
        self._config, self.whom = config, whom
        if changes:
            logger.info("%s has changed: %s", self._file, "; ".join(changes))
        return bool(changes)

    def _fingerprint(self, config: Config) -> tuple[object, ...]:
        tables: tuple[Mapping[str, object], ...] = (config.notices, *config.hooks.values())
        beside = [table.get(name) for table in tables for name in ("secret_file", "password_file")]
        return tuple(map(_state, [self._file, *(Path(str(each)) for each in beside if each)]))


def _state(file: Path) -> object:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _describe(old: Whom, new: Whom) -> list[str]:
    """Say what is different, by names alone: values may be secret."""
    kept = [name for name in new.hooks if name in old.hooks]
    other = [
        name
        for name in kept
        if (old.hooks[name], old.secrets.get(name)) != (new.hooks[name], new.secrets.get(name))
    ]
    rules = [
        name
        for name in Rules.__struct_fields__
        if getattr(old.rules, name) != getattr(new.rules, name)
    ]
    if old.secrets.get("") != new.secrets.get("") and "secrets" not in rules:
        rules.append("secrets")
    parts = {
        "new hooks": [name for name in new.hooks if name not in old.hooks],
        "hooks that are gone": [name for name in old.hooks if name not in new.hooks],
        "changed hooks": other,
        "changed in [notices]": rules,
    }
    return [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]


@contextmanager
def follow_files(settings: LiveSettings, changed: Callable[[], None]) -> Iterator[None]:
    """Look at the files again and again meanwhile; call `changed` after each change."""
    stopping = threading.Event()

    def follow() -> None:
        while not stopping.wait(_LOOK_S):
            try:
                if settings.look():
                    changed()
            except Exception:  # hooks that stay as they are do no harm
                logger.exception("hooks stay as they were")

    thread = threading.Thread(target=follow, name="settings of hooks", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(_STOP_TIMEOUT_S)
