"""A file of tokens that 144e6ff wrote still lets in whoever has one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stayer.http.token_places import TokenFile
from stayer.http.tokens import Access
from tests.versions import old


@pytest.fixture
def access(tmp_path: Path) -> Access:
    path = tmp_path / "tokens"
    shutil.copyfile(old.DATA / "tokens", path)
    path.chmod(0o600)
    return Access(TokenFile(path))


@pytest.mark.parametrize(
    ("name", "role", "queues"),
    [("reader", "read", ()), ("submitter", "submit", ("q", "other")), ("operator", "operate", ())],
)
def test_a_token_lets_in(access: Access, name: str, role: str, queues: tuple[str, ...]) -> None:
    token = access.find(old.read_json("tokens.json")[name])
    assert token is not None
    assert (token.name, token.role, token.queues) == (name, role, queues)
    assert token.is_valid()


def test_a_login_code_works_once(access: Access) -> None:
    code = old.read_json("tokens.json")["login code"]
    assert access.take_code(code) == "operate"
    assert access.take_code(code) is None


def test_tokens_come_and_go(access: Access) -> None:
    secret = access.add("another", "read")
    access.remove("reader")
    assert access.find(secret) is not None
    assert access.find(old.read_json("tokens.json")["reader"]) is None
    assert access.find(old.read_json("tokens.json")["operator"]) is not None
