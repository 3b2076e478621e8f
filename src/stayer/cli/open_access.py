"""Finding the tokens that a server reads, for `serve` and `token`."""

from __future__ import annotations

from stayer.cli.command import Given
from stayer.cli.output import note, plural
from stayer.config import former_access_file
from stayer.core.errors import Refused
from stayer.http.token_places import TokenFile, TokensInStore
from stayer.http.tokens import Access


def open_access(given: Given, file: str | None = None) -> Access:
    """Open the tokens: in the file that is named here or in stayer.toml, else in the store."""
    named = file or given.config().serve.get("access_file")
    if named:
        return Access(TokenFile(named))
    url = given.config().store
    if url.startswith(("http://", "https://")):
        raise Refused(
            f"{url} is a server, and tokens are kept in its database: run this with the --store "
            "that the server has, for example on its machine"
        )
    access = Access(TokensInStore(given.store(make=True)))
    _copy_former_file(given, access)
    return access


def _copy_former_file(given: Given, access: Access) -> None:
    """Take over the file in which tokens were kept before they were in the store. It stays: there
    may be another store whose server has read it.
    """
    path = former_access_file(given.config())
    if path is None or not path.exists():
        return
    kept = TokenFile(path).current()
    if kept.key and (number := access.copy_from(kept)) is not None:
        note(f"{plural(number, 'token')} copied from {path}, which is not read any more")
