"""Environments that are kept: whole or not used, built once, never removed under a task."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from stayer.task.prepare import cache
from tests.cli.running import Here
from tests.faults.fleet import until
from tests.processes import PROCESSES


def make(folder: Path, key: str, *, size: int = 10, used: float | None = None) -> Path:
    """An environment that is whole, and as large as it says."""
    path = folder / key
    path.mkdir(parents=True)
    (path / cache.COMPLETE).write_text(json.dumps({"size": size}))
    if used is not None:
        os.utime(path / cache.COMPLETE, (used, used))
    return path


def never(path: str, lock: cache.Lock) -> dict[str, object]:
    raise AssertionError(f"{path} was to be there")


def use(folder: Path, key: str) -> cache.Environment:
    return cache.use(str(folder), key, never, lambda: None)


def test_a_thousand_are_evicted_down_to_the_limit_but_for_those_in_use(tmp_path: Path) -> None:
    now = time.time()
    for number in range(1000):
        make(tmp_path, f"{number:04}", used=now - 5000 + number)
    held = [use(tmp_path, f"{number:04}") for number in (0, 7, 500)]
    for number in (0, 7, 500):  # use has made them young again
        os.utime(tmp_path / f"{number:04}" / cache.COMPLETE, (now - 6000, now - 6000))

    cache.evict(str(tmp_path), 1000, 86400.0)

    left = {Path(each.path).name for each in cache.list_kept(str(tmp_path))}
    assert {"0000", "0007", "0500"} <= left
    assert sum(each.size for each in cache.list_kept(str(tmp_path))) <= 1000
    assert "0999" in left
    for each in held:
        os.close(each.lock)


def test_what_was_not_used_for_long_is_evicted_by_age(tmp_path: Path) -> None:
    make(tmp_path, "old", used=time.time() - 100.0)
    make(tmp_path, "young")

    removed = cache.evict(str(tmp_path), 10**9, 50.0)

    assert [Path(each.path).name for each in removed] == ["old"]
    assert not (tmp_path / "old.lock").exists()


def test_what_a_build_that_failed_has_left_is_not_used(tmp_path: Path) -> None:
    def breaks(path: str, lock: cache.Lock) -> dict[str, object]:
        (Path(path) / "half").touch()
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        cache.use(str(tmp_path), "key", breaks, lambda: None)

    assert not (tmp_path / "key").exists()
    assert not cache.is_complete(str(tmp_path / "key"))


@pytest.mark.parametrize("notices", [True, False])
def test_what_is_deleted_while_it_is_built_is_built_anew(tmp_path: Path, notices: bool) -> None:
    envs, tries = tmp_path / "cache" / "envs", []

    def build(path: str, lock: cache.Lock) -> dict[str, object]:
        tries.append(path)
        if len(tries) == 1:
            shutil.rmtree(tmp_path / "cache")
            if notices:
                raise OSError(2, "No such file or directory")
            os.makedirs(path)  # as programs do that make the folders which they write to
        return {}

    found = cache.use(str(envs), "key", build, lambda: None)

    assert len(tries) == 2
    assert cache.is_complete(found.path)
    os.close(found.lock)


def test_what_a_builder_that_was_killed_has_left_is_evicted(tmp_path: Path) -> None:
    envs = tmp_path / "envs"
    left = make(envs, "left")
    (left / cache.COMPLETE).unlink()
    cache.Lock(str(left)).close()
    cache.Lock(str(envs / "gone")).close()
    being_built = cache.Lock(str(envs / "busy"))
    assert being_built.take(fcntl.LOCK_EX)
    (envs / "busy").mkdir()
    make(envs, "whole")

    assert cache.evict(str(envs), 10**9, 86400.0) == []

    assert sorted(os.listdir(envs)) == ["busy", "busy.lock", "whole"]
    being_built.close()


def test_what_cant_be_removed_keeps_nothing_else(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        make(tmp_path, name, used=1.0)
    (tmp_path / "b.lock").mkdir()  # nobody can lock it

    removed = cache.evict(str(tmp_path), 10**9, 50.0)

    assert sorted(Path(each.path).name for each in removed) == ["a", "c"]
    assert cache.is_complete(str(tmp_path / "b"))


def test_an_environment_whose_python_was_removed_is_built_again(tmp_path: Path) -> None:
    python = tmp_path / "python3.11"
    python.touch()
    built = []

    def build(path: str, lock: cache.Lock) -> dict[str, object]:
        built.append(path)
        (Path(path) / "venv" / "bin").mkdir(parents=True)
        (Path(path) / "venv" / "bin" / "python").symlink_to(python)
        return {}

    os.close(cache.use(str(tmp_path / "envs"), "key", build, lambda: None).lock)
    python.unlink()
    python = tmp_path / "python3.11.9"
    python.touch()

    os.close(cache.use(str(tmp_path / "envs"), "key", build, lambda: None).lock)
    os.close(cache.use(str(tmp_path / "envs"), "key", build, lambda: None).lock)

    assert len(built) == 2


def test_to_list_what_was_removed_meanwhile_makes_no_lock(tmp_path: Path) -> None:
    make(tmp_path, "gone")
    [listed] = cache.list_kept(str(tmp_path))
    assert cache.remove(listed.path)

    assert not listed.is_used()

    assert os.listdir(tmp_path) == []


def test_a_folder_to_work_in_is_removed_also_if_its_process_is_killed(tmp_path: Path) -> None:
    with cache.scratch(str(tmp_path)) as (path, _):
        (Path(path) / "file").touch()
        cache.remove_leftovers(str(tmp_path))
        assert (Path(path) / "file").exists()
    assert os.listdir(tmp_path) == []

    victim = PROCESSES.Process(target=work_until_killed, args=(str(tmp_path),))
    victim.start()
    until(lambda: list(tmp_path.glob("*/file")), "for it to begin")
    assert victim.pid is not None
    os.kill(victim.pid, signal.SIGKILL)
    victim.join()

    cache.remove_leftovers(str(tmp_path))

    assert os.listdir(tmp_path) == []


def work_until_killed(folder: str) -> None:
    with cache.scratch(folder) as (path, _):
        (Path(path) / "file").touch()
        signal.pause()


def check_what_is_used(folder: str, seed: int, until_there: str) -> None:
    """Use environments of many keys, and look whether they stay while they are used."""
    chance = random.Random(seed)

    def build(path: str, lock: cache.Lock) -> dict[str, object]:
        (Path(path) / "file").write_text("whole")
        return {"size": 10}

    while not os.path.exists(until_there):
        found = cache.use(folder, f"{chance.randrange(20)}", build, lambda: None)
        for _ in range(5):
            assert (Path(found.path) / "file").read_text() == "whole"
            assert cache.is_complete(found.path)
            time.sleep(0.001)
        os.close(found.lock)


@pytest.mark.long
def test_nothing_is_evicted_under_those_who_use_it_however_they_meet(tmp_path: Path) -> None:
    stop, envs = tmp_path / "stop", tmp_path / "envs"
    users = [
        PROCESSES.Process(target=check_what_is_used, args=(str(envs), seed, str(stop)))
        for seed in range(4)
    ]
    for user in users:
        user.start()
    removed = 0
    while removed < 2000 and all(user.is_alive() for user in users):
        removed += len(cache.evict(str(envs), 50, 86400.0))
    stop.touch()
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0] * 4
    assert removed >= 2000


def slowly(folder: str, started: str, counted: str) -> None:
    """Build it in several steps, and write down whenever one is finished."""

    def build(path: str, lock: cache.Lock) -> dict[str, object]:
        Path(started).touch()
        for number in range(20):
            (Path(path) / f"{number}").write_text("part")
            time.sleep(0.005)
        return {}

    environment = cache.use(folder, "key", build, lambda: None)
    parts = [each for each in os.listdir(environment.path) if each.isdigit()]
    with open(counted, "a") as file:
        file.write(f"{environment.fresh} {len(parts)}\n")


def test_a_builder_killed_at_any_moment_leaves_it_to_the_next(tmp_path: Path) -> None:
    counted = tmp_path / "counted"
    chance = random.Random(7)
    for number in range(6):
        started = tmp_path / f"started{number}"
        folder = tmp_path / f"envs{number}"
        arguments = (str(folder), str(started), str(counted))
        victim = PROCESSES.Process(target=slowly, args=arguments)
        victim.start()
        until(started.exists, "for the build to begin")
        time.sleep(chance.random() * 0.12)
        if victim.pid is not None:
            os.kill(victim.pid, signal.SIGKILL)
        victim.join()

        slowly(*arguments)

        assert counted.read_text().splitlines()[-1].endswith(" 20")


def test_one_that_stands_still_while_it_builds_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.makedirs(tmp_path, exist_ok=True)
    frozen = cache.Lock(str(tmp_path / "key"))
    assert frozen.take(fcntl.LOCK_EX)
    os.utime(frozen.descriptor, (1.0, 1.0))

    found = cache.use(str(tmp_path), "key", lambda path, lock: {}, lambda: None)

    assert Path(found.path).name == "key.1"
    again = use(tmp_path, "key")
    assert again.path == found.path
    for descriptor in (found.lock, again.lock, frozen.descriptor):
        os.close(descriptor)


def test_nothing_in_an_environment_can_be_written_by_mistake(tmp_path: Path) -> None:
    def build(path: str, lock: cache.Lock) -> dict[str, object]:
        (Path(path) / "lib").mkdir()
        (Path(path) / "lib" / "module.py").write_text("x = 1\n")
        return {}

    found = cache.use(str(tmp_path), "key", build, lambda: None)

    for path in (Path(found.path) / "lib", Path(found.path) / "lib" / "module.py"):
        assert not path.stat().st_mode & 0o222
    os.close(found.lock)
    assert cache.remove(found.path)
    assert not Path(found.path).exists()


def test_the_command_lists_and_removes_them(tmp_path: Path, stayer: Here) -> None:
    make(tmp_path / "envs", "a" * 64, size=3_000_000, used=time.time() - 100.0)
    make(tmp_path / "envs", "b" * 64, size=1_000_000)
    held = use(tmp_path / "envs", "b" * 64)

    listed = stayer("code", "ls", "--code-dir", str(tmp_path)).works()
    rows = stayer("code", "ls", "--json", "--code-dir", str(tmp_path)).works().json
    none = stayer("code", "prune", "--json", "--code-dir", str(tmp_path)).works().json
    pruned = stayer("code", "prune", "--older-than", "0s", "--code-dir", str(tmp_path)).works()

    assert "3 MB" in listed.lines[0]
    assert "in use" in listed.lines[1]
    assert [row["in_use"] for row in rows] == [False, True]
    assert none == {"removed": [], "freed": 0}
    assert "removed 1 environment, 3 MB" in pruned.out
    assert [each.path for each in cache.list_kept(str(tmp_path / "envs"))] == [held.path]
    os.close(held.lock)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_nothing_is_removed_for_another_user(stayer: Here, tmp_path: Path) -> None:
    """What looks like an environment there may be a link to any folder of the machine."""
    make(tmp_path / "envs", "k", used=1.0)
    os.chown(tmp_path / "envs", 65534, 65534)
    for verb in ("prune", "ls"):
        stayer("code", verb, "--code-dir", str(tmp_path)).refuses("another user", "65534")
    assert (tmp_path / "envs" / "k" / cache.COMPLETE).exists()
