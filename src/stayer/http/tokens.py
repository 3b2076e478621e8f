"""Who may come in: tokens, login codes and sessions, wherever they are kept.

Standard library and msgspec only: the command line imports it without a server.
"""

from __future__ import annotations

import hmac
import math
import secrets
import time
from collections.abc import Collection

from msgspec.structs import replace

from stayer.core.errors import BadInput, Refused
from stayer.core.limits import quote
from stayer.core.model import JSON
from stayer.core.units import rfc3339
from stayer.http.token_places import Place
from stayer.http.token_records import WORK, Code, Kept, Opening, Role, Session, Token, digest

CODE_LIFE_S = 600.0
"""How long a login link can be used, in seconds."""

SESSION_IDLE_S = 3 * 86400.0
"""A session that nobody uses ends after so many seconds."""
SESSION_LIFE_S = 30 * 86400.0
"""Every session ends after so many seconds, used or not."""
SESSIONS_PER_TOKEN = 50
"""How many sessions one token, or all login links together, may have open; the next one ends the
one that was used longest ago.
"""

_NAME_LIMIT = 100
_PREFIX = "stayer_"


class _Index:
    """What is looked for among what is kept, by what it is looked for."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.tokens = {token.hash: token for token in kept.tokens}
        self.cookies = {session.cookie: session for session in kept.sessions}
        self.sessions = {session.id: session for session in kept.sessions}


class Access:
    """What is asked of the tokens and sessions that are kept in one place."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._index = _Index(place.current())
        self._uses: dict[str, float] = {}
        """When tokens (by hash) and sessions (by id) were used, as far as this process knows."""
        self._uses_written = place.read_uses()

    @property
    def where(self) -> str:
        """Where they are kept, as people are told."""
        return self._place.where

    @property
    def accepted_by(self) -> str:
        """Who lets tokens in that are kept there, as people are told."""
        return self._place.accepted_by

    @property
    def look_every_s(self) -> float | None:
        """How often a server has to `look`; None: it need not."""
        return self._place.look_every_s

    def look(self) -> None:
        """Look for what other processes have changed. May have to wait for the store."""
        self._place.refresh()

    def refresh(self) -> None:
        """Look for what other processes have changed, and used."""
        self.look()
        self._uses_written = self._place.read_uses()

    @property
    def key(self) -> bytes:
        """The session cookie is named after it; empty while nothing is kept."""
        return bytes.fromhex(self._place.current().key)

    def tokens(self) -> tuple[Token, ...]:
        """Return all tokens, by name."""
        return self._place.current().tokens

    def find(self, secret: str) -> Token | None:
        """Find whose token this is; None if it is nobody's, or has expired."""
        return self.holder(digest(secret))

    def holder(self, hash: str) -> Token | None:
        """Return the token with this hash, if it still opens anything."""
        found = self._current_index().tokens.get(hash)
        return found if found is not None and found.is_valid() else None

    def add(
        self,
        name: str,
        role: Role,
        queues: tuple[str, ...] = (),
        *,
        life: float | None = None,
        any_id: bool = False,
    ) -> str:
        """Make a token and return it: this is the only time that it can be seen. It expires after
        `life` seconds.
        """
        if not name or len(name) > _NAME_LIMIT or not name.isprintable() or name != name.strip():
            raise BadInput(f"name {quote(name)}: give one of 1 to {_NAME_LIMIT} characters")
        if role == WORK and not queues:
            raise BadInput("a token of the role work is for certain queues: name them with --queue")
        secret = _PREFIX + secrets.token_urlsafe(32)
        now = time.time()
        token = Token(
            name, role, digest(secret), now, tuple(dict.fromkeys(queues)),
            None if life is None else now + life, any_id,
        )  # fmt: skip

        def add_token(kept: Kept) -> tuple[Kept, None]:
            if any(known.name == name for known in kept.tokens):
                raise Refused(
                    f"there is a token {name!r} already: name it otherwise, or remove that one "
                    f"with `stayer token rm {name}`"
                )
            tokens = sorted((*kept.tokens, token), key=lambda known: known.name)
            return replace(kept, tokens=tuple(tokens)), None

        self._place.change(add_token)
        return secret

    def remove(self, name: str) -> None:
        """Let a token open nothing any more, nor the sessions that it began."""

        def remove_token(kept: Kept) -> tuple[Kept, None]:
            left = tuple(token for token in kept.tokens if token.name != name)
            if len(left) == len(kept.tokens):
                known = ", ".join(token.name for token in left) or "none"
                raise BadInput(f"no token is called {name!r}: there are {known}")
            gone = {token.hash for token in kept.tokens} - {token.hash for token in left}
            sessions = tuple(each for each in kept.sessions if each.token not in gone)
            return replace(kept, tokens=left, sessions=sessions), None

        self._place.change(remove_token)

    def make_code(self, role: Role = "operate", life: float = CODE_LIFE_S) -> str:
        """Make a code that opens one session, within its life."""
        secret = secrets.token_urlsafe(32)
        code = Code(digest(secret), role, time.time() + life)
        self._place.change(lambda kept: (replace(kept, codes=(*_fresh(kept.codes), code)), None))
        return secret

    def take_code(self, secret: str) -> Role | None:
        """Use up a code; return the role of the session that it opens, None if it opens nothing."""
        presented = digest(secret)
        if not any(
            hmac.compare_digest(code.hash, presented) for code in self._place.current().codes
        ):
            return None

        def take(kept: Kept) -> tuple[Kept, Role | None]:
            fresh = _fresh(kept.codes)
            taken = [code for code in fresh if hmac.compare_digest(code.hash, presented)]
            left = tuple(code for code in fresh if code not in taken)
            return replace(kept, codes=left), taken[0].role if taken else None

        return self._place.change(take)

    def open_session(self, name: str, role: Role, token: str | None, address: str) -> Opening:
        """Begin a session, of a token (its hash) or of a login link."""
        cookie, page = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        session = Session(
            secrets.token_hex(4), digest(cookie), digest(page), name, role, time.time(), address,
            token,
        )  # fmt: skip

        def add_session(kept: Kept) -> tuple[Kept, None]:
            self._uses_written = self._place.read_uses()  # others are in use at other servers
            left = [each for each in kept.sessions if not self._is_over(each)]
            same = sorted((each for each in left if each.token == token), key=self.last_use)
            dropped = same[: max(0, len(same) - SESSIONS_PER_TOKEN + 1)]
            left = [each for each in left if each not in dropped]
            return replace(kept, sessions=(*left, session)), None

        self._place.change(add_session)
        return Opening(session, cookie, page)

    def sessions(self) -> tuple[Session, ...]:
        """Return the sessions that are open, the oldest first."""
        return tuple(each for each in self._place.current().sessions if self._is_open(each))

    def find_session(self, cookie: str) -> Session | None:
        """Find whose cookie this is. It opens nothing without the session's other secret."""
        found = self._current_index().cookies.get(digest(cookie))
        return found if found is not None and self._is_open(found) else None

    def is_session_open(self, id: str) -> bool:
        """Return whether a session has not ended yet."""
        found = self._current_index().sessions.get(id)
        return found is not None and self._is_open(found)

    def end_sessions(self, ids: Collection[str] | None = None) -> int:
        """End these sessions, or all; returns how many have ended."""

        def drop_sessions(kept: Kept) -> tuple[Kept, int]:
            left = tuple(each for each in kept.sessions if ids is not None and each.id not in ids)
            return replace(kept, sessions=left), len(kept.sessions) - len(left)

        return self._place.change(drop_sessions)

    def _is_open(self, session: Session) -> bool:
        if session.token is not None and self.holder(session.token) is None:
            return False
        return not self._is_over(session)

    def _is_over(self, session: Session) -> bool:
        now = time.time()
        return (
            now >= session.since + SESSION_LIFE_S or now >= self.last_use(session) + SESSION_IDLE_S
        )

    def note_use(self, key: str) -> None:
        """Note that a token (its hash) or a session (its id) is used now."""
        self._uses[key] = time.time()

    def last_use(self, what: Token | Session) -> float:
        """Return when it was last used, within a minute; if it never was, when it was made."""
        key, made = (what.hash, what.created) if isinstance(what, Token) else (what.id, what.since)
        return max(made, self._uses.get(key, made), self._uses_written.get(key, made))

    def last_used_at(self, token: Token) -> float | None:
        """Return when a token was last used; None: never."""
        last = self.last_use(token)
        return last if last > token.created else None

    def write_uses(self) -> None:
        """Let others know of uses. Cheap enough for every minute; several processes may do so."""
        uses, known = dict(self._uses), self._uses_written  # a copy: requests go on meanwhile
        if not any(at > known.get(key, -math.inf) for key, at in uses.items()):
            return
        self._place.refresh()
        index = self._current_index()
        merged = self._place.change_uses(
            lambda written: {
                key: max(uses.get(key, 0.0), written.get(key, 0.0))
                for key in {*uses, *written}
                if key in index.tokens or key in index.sessions
            }
        )
        self._uses_written = merged
        for key in uses.keys() - merged.keys():
            self._uses.pop(key, None)

    def copy_from(self, other: Kept) -> int | None:
        """Take over what was kept elsewhere, once; returns how many tokens, None if it was before.
        A token whose name is taken gets another one.
        """

        def take_over(kept: Kept) -> tuple[Kept, int | None]:
            if other.key in kept.copied:
                return kept, None
            known = {token.hash for token in kept.tokens}
            tokens = {token.name: token for token in kept.tokens}
            for token in other.tokens:
                if token.hash not in known:
                    name = _free_name(token.name, tokens)
                    tokens[name] = replace(token, name=name)
            return Kept(
                key=kept.key if kept.tokens or kept.sessions else other.key,
                tokens=tuple(tokens[name] for name in sorted(tokens)),
                codes=(*kept.codes, *other.codes),
                sessions=(*kept.sessions, *other.sessions),
                copied=(*kept.copied, other.key),
            ), len(tokens) - len(kept.tokens)

        return self._place.change(take_over)

    def _current_index(self) -> _Index:
        kept = self._place.current()
        index = self._index
        if index.kept is not kept:
            index = self._index = _Index(kept)
        return index


def session_record(access: Access, session: Session) -> dict[str, JSON]:
    """Describe a session as JSON, for people who look who has logged in."""
    began = next((each.name for each in access.tokens() if each.hash == session.token), None)
    return {
        "id": session.id, "name": session.name, "role": session.role, "token": began,
        "since": rfc3339(session.since), "used": rfc3339(access.last_use(session)),
        "address": session.address,
    }  # fmt: skip


def _fresh(codes: tuple[Code, ...]) -> tuple[Code, ...]:
    now = time.time()
    return tuple(code for code in codes if code.until > now)


def _free_name(name: str, taken: Collection[str]) -> str:
    number = 2
    free = name
    while free in taken:
        free = f"{name[: _NAME_LIMIT - 5]}-{number}"
        number += 1
    return free
