"""Settings: who has the last word, where a value came from, and what is wrong with it."""

from __future__ import annotations

import getpass
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stayer.config import SETTINGS, load, writing
from stayer.config.writing import write
from stayer.core.errors import BadConfig, Refused


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home directory and nothing else."""
    (tmp_path / "home").mkdir()
    return {"HOME": str(tmp_path / "home"), "USER": "ann"}


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_with_nothing_said_the_defaults_hold(home, cwd):
    found = load({}, home, cwd)
    assert found.store == f"sqlite:///{home['HOME']}/.local/share/stayer/stayer.db"
    assert found.store.startswith("sqlite:////")
    assert (found.queue, found.owner, found.lease, found.retries) == ("default", "ann", 120.0, None)
    assert set(found.sources.values()) == {"default"}
    assert list(found.sources) == list(SETTINGS)


def test_a_flag_beats_the_environment_beats_the_file(home, cwd):
    file = cwd / "stayer.toml"
    file.write_text('queue = "file"\nowner = "file"\nlease = "5m"\n')
    environ = {**home, "STAYER_QUEUE": "variable", "STAYER_OWNER": "variable"}
    found = load({"queue": "flag", "store": None}, environ, cwd)
    assert (found.queue, found.owner, found.lease) == ("flag", "variable", 300.0)
    assert found.sources == {
        "store": "default",
        "queue": "--queue",
        "owner": "STAYER_OWNER",
        "lease": str(file),
        "retries": "default",
        "submitter": "default",
        "record_commit": "default",
        "token": "default",
    }


def test_an_empty_variable_says_nothing(home, cwd):
    environ = {**home, "STAYER_QUEUE": "", "STAYER_CONFIG": ""}
    assert load({}, environ, cwd).queue == "default"


def test_an_empty_flag_is_refused(home, cwd):
    with pytest.raises(BadConfig, match=r"^--queue: '' is not text"):
        load({"queue": ""}, home, cwd)


def test_the_store_is_kept_where_xdg_says(home, cwd, tmp_path):
    found = load({}, {**home, "XDG_DATA_HOME": str(tmp_path)}, cwd)
    assert found.store == f"sqlite:///{tmp_path}/stayer/stayer.db"


def test_a_relative_xdg_folder_counts_as_none(home, cwd):
    found = load({}, {**home, "XDG_DATA_HOME": "data"}, cwd)
    assert found.store == f"sqlite:///{home['HOME']}/.local/share/stayer/stayer.db"


def test_without_a_home_only_the_default_store_is_missing(cwd, monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    with pytest.raises(BadConfig, match=r"store: there is no home directory.*STAYER_STORE"):
        load({}, {"USER": "ann"}, cwd)
    assert load({"store": "sqlite:///a.db"}, {"USER": "ann"}, cwd).store == "sqlite:///a.db"


def test_a_relative_store_in_a_file_is_relative_to_the_file(home, cwd):
    (cwd / "stayer.toml").write_text('store = "sqlite:///tasks.db"\n')
    assert load({}, home, cwd).store == f"sqlite:///{cwd}/tasks.db"


def test_a_relative_store_elsewhere_is_relative_to_the_working_directory(home, cwd):
    assert load({"store": "sqlite:///tasks.db"}, home, cwd).store == "sqlite:///tasks.db"
    assert load({}, {**home, "STAYER_STORE": "sqlite:///a.db"}, cwd).store == "sqlite:///a.db"


def test_the_owner_never_fails(home, cwd, monkeypatch):
    del home["USER"]
    assert load({}, {**home, "LOGNAME": "log"}, cwd).owner == "log"
    monkeypatch.setattr(getpass, "getuser", lambda: "password file")
    assert load({}, home, cwd).owner == "password file"

    def nobody() -> str:
        raise KeyError("uid not found")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert load({}, home, cwd).owner == str(os.getuid())
    monkeypatch.delattr(os, "getuid")
    assert load({}, home, cwd).owner == "unknown"


def test_the_file_at_hand_is_taken_before_the_one_at_home(home, cwd):
    at_home = Path(home["HOME"]) / ".config" / "stayer" / "stayer.toml"
    at_home.parent.mkdir(parents=True)
    at_home.write_text('queue = "home"\nowner = "bob"\n')
    assert load({}, home, cwd).queue == "home"
    assert load({}, home, cwd).sources["queue"] == str(at_home)
    (cwd / "stayer.toml").write_text('queue = "here"\n')
    found = load({}, home, cwd)
    assert (found.queue, found.owner) == ("here", "ann")


def test_the_home_of_configuration_is_where_xdg_says(home, cwd, tmp_path):
    (tmp_path / "stayer").mkdir()
    (tmp_path / "stayer" / "stayer.toml").write_text("retries = 2\n")
    assert load({}, {**home, "XDG_CONFIG_HOME": str(tmp_path)}, cwd).retries == 2


def test_a_named_file_is_the_only_one_read(home, cwd):
    (cwd / "stayer.toml").write_text('owner = "here"\n')
    (cwd / "one.toml").write_text('queue = "one"\n')
    (cwd / "two.toml").write_text('queue = "two"\n')
    environ = {**home, "STAYER_CONFIG": "one.toml"}
    assert load({}, environ, cwd).queue == "one"
    assert load({}, environ, cwd).owner == "ann"
    assert load({"config": "two.toml"}, environ, cwd).queue == "two"
    assert load({"config": str(cwd / "two.toml")}, home, cwd).queue == "two"


@pytest.mark.parametrize(
    ("flags", "environ", "source"),
    [({"config": "no.toml"}, {}, "--config"), ({}, {"STAYER_CONFIG": "no.toml"}, "STAYER_CONFIG")],
)
def test_a_named_file_that_is_missing_is_refused(home, cwd, flags, environ, source):
    with pytest.raises(BadConfig, match=f"^{source}: there is no file {cwd}/no.toml"):
        load(flags, {**home, **environ}, cwd)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('quue = "a"', "no setting is called 'quue': did you mean 'queue'?"),
        ("zzz = 1", "no setting is called 'zzz': there are store, queue"),
        ("[worker]\nslotz = 1", "no setting is called 'slotz': did you mean 'slots'?"),
        ("worker = 1", "worker is not a table"),
        ('queue = "a"\nqueue = = 3', "is not TOML"),
        ("queue = 'a'\n\nowner = b", "line 3"),
        ("queue = 3", "queue: 3 is not text"),
        ("lease = true", "lease: 'True' is not a duration"),
        ("lease = [1]", "lease: '[1]' is not a duration"),
        ("lease = 1", "lease: 1s is too short: the smallest lease is 2s"),
        ('lease = "soon"', "lease: 'soon' is not a duration"),
        ("retries = -1", "retries: '-1' is not a whole number"),
        ("retries = 1.5", "retries: '1.5' is not a whole number"),
        ("retries = true", "retries: 'True' is not a whole number"),
        ('store = "tasks.db"', "store: 'tasks.db' is not the URL of a store"),
        ('store = "://"', "is not the URL of a store"),
    ],
)
def test_a_mistake_in_a_file_is_refused_by_file_and_key(home, cwd, content, said):
    file = cwd / "stayer.toml"
    file.write_text(content)
    with pytest.raises(BadConfig) as refusal:
        load({}, home, cwd)
    assert str(refusal.value).startswith(str(file))
    assert said in str(refusal.value)


def test_a_file_that_is_not_utf_8_is_refused(home, cwd):
    (cwd / "stayer.toml").write_bytes(b'queue = "\xff"')
    with pytest.raises(BadConfig, match="not UTF-8 at byte 9"):
        load({}, home, cwd)


def test_a_file_that_can_not_be_read_is_refused(home, cwd, monkeypatch):
    (cwd / "stayer.toml").write_text("")

    def denied(*_: object, **__: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(BadConfig, match=r"stayer\.toml can't be read: Permission denied"):
        load({}, home, cwd)


def test_a_mistake_in_the_environment_is_refused_by_variable(home, cwd):
    with pytest.raises(BadConfig, match=r"^STAYER_LEASE: 'x' is not a duration"):
        load({}, {**home, "STAYER_LEASE": "x"}, cwd)


def test_a_flag_that_is_no_setting_is_refused(home, cwd):
    with pytest.raises(BadConfig, match="flags: no setting is called 'stor': did you mean 'store'"):
        load({"stor": "x"}, home, cwd)


def test_numbers_and_durations_are_read_from_text(home, cwd):
    found = load({"lease": "2s", "retries": "3"}, home, cwd)
    assert (found.lease, found.retries) == (2.0, 3)


def test_what_is_around_is_taken_where_nothing_is_passed(home, cwd, monkeypatch):
    monkeypatch.setenv("HOME", home["HOME"])
    monkeypatch.setenv("STAYER_OWNER", "around")
    monkeypatch.chdir(cwd)
    (cwd / "stayer.toml").write_text('queue = "here"\n')
    found = load()
    assert (found.owner, found.queue) == ("around", "here")
    assert found.sources["queue"] == str(cwd / "stayer.toml")


def test_every_setting_has_a_variable_a_flag_and_a_sentence():
    for name, setting in SETTINGS.items():
        assert setting.name == name
        assert setting.variable == f"STAYER_{name.upper()}"
        assert setting.flag == f"--{name.replace('_', '-')}"
        assert setting.help.endswith(".")


def test_what_is_written_is_what_was_set(home, cwd):
    found = load({"store": "sqlite:///a.db", "lease": "2.5s", "retries": "3"}, home, cwd)
    write(found, cwd / "sub" / "stayer.toml")
    text = (cwd / "sub" / "stayer.toml").read_text()
    here = f"sqlite:///{Path.cwd()}/a.db"
    assert tomllib.loads(text) == {"store": here, "lease": 2.5, "retries": 3}
    assert f"# {SETTINGS['lease'].help}\nlease = 2.5\n" in text
    again = load({"config": "sub/stayer.toml"}, home, cwd)
    assert (again.store, again.lease, again.retries) == (here, found.lease, found.retries)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_any_text_survives_being_written(name):
    assert tomllib.loads(f"owner = {writing._toml(name)}")["owner"] == name


def test_a_file_that_is_there_is_not_overwritten_unless_told(home, cwd):
    file = cwd / "stayer.toml"
    file.write_text("# mine\n")
    found = load({"queue": "b"}, home, cwd)
    with pytest.raises(Refused, match=r"stayer\.toml is there already"):
        write(found, file)
    assert file.read_text() == "# mine\n"
    write(found, file, overwrite=True)
    assert tomllib.loads(file.read_text()) == {"queue": "b"}
    assert [path.name for path in cwd.iterdir()] == ["stayer.toml"]


def test_a_written_file_is_for_its_owner_only(home, cwd):
    write(load({"store": "redis://:secret@host"}, home, cwd), cwd / "stayer.toml")
    assert stat.S_IMODE((cwd / "stayer.toml").stat().st_mode) == 0o600


def test_a_file_that_can_not_be_written_is_refused(home, cwd):
    (cwd / "file").write_text("")
    with pytest.raises(BadConfig, match="can't be written"):
        write(load({}, home, cwd), cwd / "file" / "stayer.toml")


def test_loading_imports_nothing_that_it_does_not_need(home, cwd):
    script = (
        "import sys; from stayer.config import load; load(); "
        "print([name for name in ('tomllib', 'getpass', 'difflib', 'json') if name in sys.modules])"
    )
    environ = {**home, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, cwd=cwd, capture_output=True, check=True
    )
    assert done.stdout == b"[]\n"


def test_limits_of_queues_are_read_from_the_file(tmp_path: Path) -> None:
    written = '[queues.crawl]\nlimit = 4\nkey_limits = { "a.b" = 2 }\nrate = "5/1m"\nfair = "key"\n'
    (tmp_path / "stayer.toml").write_text(written)
    found = load(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert found.queues == {
        "crawl": {"limit": 4, "key_limits": {"a.b": 2}, "rate": "5/1m", "fair": "key"}
    }


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("queues = 3", "[queues.NAME]"),
        ("[queues]\nlimit = 3", "[queues.NAME]"),
        ("[queues.q]\nlimits = 3", "limits"),
        ("[queues.q]\nlimit = 0", "queues.q: limit 0"),
        ('[queues.q]\nrate = "often"', "100/1h"),
        ('[queues.q]\nfair = "all"', "owner or key"),
    ],
)
def test_limits_that_can_not_be_are_refused(tmp_path: Path, written: str, words: str) -> None:
    (tmp_path / "stayer.toml").write_text(written)
    with pytest.raises(BadConfig) as refused:
        load(environ={"HOME": str(tmp_path)}, cwd=tmp_path)
    assert words in str(refused.value)
