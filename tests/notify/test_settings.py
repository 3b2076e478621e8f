"""Hooks of the configuration, read again when its files change."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from stayer.config import load
from stayer.core.errors import BadConfig, BadInput
from stayer.core.notify import notices
from stayer.service.notify.settings import LiveSettings

MAIL = '[hooks.mail]\ncommand = ["true"]\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "stayer.toml"
    file.write_text(MAIL + '[hooks.chat]\nurl = "https://a.example/"\nsecret_file = "s"\n')
    (tmp_path / "s").write_text(f"whsec_{'A' * 32}\n")
    return file


def follow(file: Path) -> LiveSettings:
    return LiveSettings(lambda: load({"config": str(file)}, {"HOME": str(file.parent)}))


def test_what_changed_counts_and_is_in_the_log(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    settings = follow(file)
    assert not settings.look()

    (file.parent / "s").write_text(f"whsec_{'B' * 32}\n")
    assert settings.look()
    assert settings.whom.secrets["chat"] == (f"whsec_{'B' * 32}",)

    file.write_text(MAIL.replace("true", "false") + '[hooks.phone]\ncommand = ["true"]\n'
                    '[notices]\nlate = ["phone"]\n')  # fmt: skip
    assert settings.look()
    assert not settings.look()
    assert (set(settings.whom.hooks), settings.whom.rules.late) == ({"mail", "phone"}, ("phone",))
    assert caplog.messages == [
        f"{file} has changed: changed hooks: chat",
        f"{file} has changed: new hooks: phone; hooks that are gone: chat; changed hooks: mail; "
        "changed in [notices]: late",
    ]


def test_what_cannot_be_read_changes_nothing(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = follow(file)
    before = settings.whom
    for text in ("[hooks.mail", MAIL + "[hooks.chat]\n", None):
        caplog.clear()
        file.unlink() if text is None else file.write_text(text)
        assert not settings.look()
        assert not settings.look()
        assert settings.whom == before
        assert [message.partition(": ")[0] for message in caplog.messages] == [
            "hooks stay as they were"
        ]
    file.write_text(MAIL)
    assert settings.look()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('late = ["mial"]', "late: no hook is called 'mial': there are mail"),
        ('no_progress = ["mail"]', "go together"),
        ('no_progress_after = "1h"', "go together"),
        ('no_progress = ["mail"]\nno_progress_after = 0', "above 0"),
    ],
)
def test_rules_that_make_no_sense_are_refused(file: Path, text: str, complaint: str) -> None:
    file.write_text(f"{MAIL}[notices]\n{text}\n")
    with pytest.raises(BadConfig, match=complaint):
        follow(file)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("no_progress:mail", "after how long: no_progress=30m"),
        ("failed=2h:mail", "failed has no time"),
        ("late=0s:mail", "above 0"),
        ("late=soon:mail", "soon"),
        ("late=2h", "not whom to tell|no hook's name"),
        ("tardy=2h:mail", "nothing that can happen"),
    ],
)
def test_times_go_with_what_is_looked_for(written: str, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        notices.parse(written)


def test_times_stay_as_written() -> None:
    assert notices.parse("failed,late=1h30m,late:mail") == "failed,late=1h30m,late:mail"
