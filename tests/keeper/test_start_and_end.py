"""How a process begins, and what is written about its end."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stayer.keeper.folder import EXIT_SIZE, SMALL_RESULT, RunDirectory
from stayer.task import outcome_files
from tests.keeper.harness import Node, state_of, wait_for


def test_the_exit_code_is_recorded(node: Node) -> None:
    ended = node.shell("exit 7").exit()
    assert (ended["exit_code"], ended["signal"], ended["stop"]) == (7, None, None)
    assert ended["leftovers"] == 0
    assert not ended["oom"]
    assert ended["ended"] >= ended["began"]


def test_the_signal_is_recorded(node: Node) -> None:
    ended = node.shell("kill -SEGV $$").exit()
    assert (ended["exit_code"], ended["signal"]) == (None, signal.SIGSEGV)


def test_a_kill_from_outside_is_neither_a_stop_nor_out_of_memory(node: Node) -> None:
    attempt = node.shell("exec sleep 1000")
    os.kill(attempt.running()["pid"], signal.SIGKILL)
    ended = attempt.exit()
    assert (ended["signal"], ended["stop"], ended["oom"]) == (signal.SIGKILL, None, False)


def test_input_log_directory_and_environment_are_the_tasks(node: Node) -> None:
    attempt = node.shell("cat; pwd; echo $STAYER_DIR; env | wc -l; echo error >&2", env={
        "PATH": os.environ["PATH"], "STAYER_DIR": "here"
    })  # fmt: skip
    attempt.exit()
    lines = attempt.log().splitlines()
    assert lines[0] == f"the input{attempt.files}"
    assert lines[1] == "here"
    assert lines[-1] == "error"


def test_a_task_begins_with_default_signals_and_no_files_but_three(node: Node) -> None:
    attempt = node.start("sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; ls /proc/self/fd")
    attempt.exit()
    words = attempt.log().split()
    of_the_c_library = 0b11 << 31  # signals 32 and 33 can't be set by anyone else
    assert [int(words[number], 16) & ~of_the_c_library for number in (1, 3)] == [0, 0]
    assert words[4:] == ["0", "1", "2", "3"]  # the last is how ls looks


def test_a_program_that_is_not_there_is_not_started(node: Node) -> None:
    attempt = node.start("no-such-program")
    said = attempt.exit()["not_started"]
    assert "can't run no-such-program: No such file" in said
    assert "not found in PATH" in said


def test_a_directory_that_is_not_there_is_not_started(node: Node) -> None:
    ended = node.start("true", cwd="/no/such/place").exit()
    assert "can't enter the directory /no/such/place" in ended["not_started"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"keeper": {}}', '{"keeper": null}'])
def test_a_task_file_that_makes_no_sense_is_not_started(node: Node, text: str) -> None:
    attempt = node.prepare(["true"])
    (attempt.path / "task.json").write_text(text)
    node.tell(f"start {attempt.path}")
    assert "task.json" in attempt.exit()["not_started"]


def test_an_empty_command_is_not_started(node: Node) -> None:
    assert node.start(*[]).exit()["not_started"]


def test_a_lease_that_is_over_starts_nothing(node: Node) -> None:
    node.renew(-1.0)
    for fence in ("freeze", "kill", "keep"):
        attempt = node.shell("touch began", fence=fence)
        assert "lease was over" in attempt.exit()["not_started"]
        assert not (attempt.files / "began").exists()


@pytest.mark.parametrize(
    "text", ["void\n", "", "nonsense", "BOOT nan 10.0\n", "BOOT 99999999.0 10.0\n", "BOOT 1 -5\n"]
)
def test_a_lease_that_makes_no_sense_starts_nothing(node: Node, text: str) -> None:
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (node.state / "lease").write_text(text.replace("BOOT", boot))
    assert "lease was over" in node.start("true").exit()["not_started"]


def test_a_lease_of_another_boot_starts_nothing(node: Node) -> None:
    node.renew(boot="00000000-0000-4000-8000-000000000000")
    assert "lease was over" in node.start("true").exit()["not_started"]


def test_a_void_directory_never_starts(node: Node) -> None:
    attempt = node.prepare(["sh", "-c", "touch began"])
    (attempt.path / "void").touch()
    node.tell(f"start {attempt.path}")
    node.start("true").exit()
    wait_for(lambda: not attempt.locked())
    assert sorted(path.name for path in attempt.path.iterdir()) == [
        "lock",
        "task",
        "task.json",
        "void",
    ]


def test_a_directory_is_never_started_twice(node: Node) -> None:
    attempt = node.shell("echo begun; exec sleep 1000")
    attempt.running()
    node.tell(f"start {attempt.path}")
    # By another name, so that only the lock knows.
    node.tell(f"start {node.state}/run/../run/{attempt.path.name}")
    node.start("true").exit()
    assert attempt.read("exit") is None
    attempt.cancel()
    node.tell(f"start {attempt.path}")
    node.start("true").exit()
    assert attempt.log() == "begun\n"


def test_what_a_dead_keeper_began_is_not_begun_again(node: Node) -> None:
    attempt = node.shell("echo begun; exec sleep 1000")
    keeper = attempt.running()["keeper"]
    wait_for(attempt.log)
    node.nursery.kill()
    node.nursery.wait()
    os.kill(keeper, signal.SIGKILL)
    wait_for(lambda: not attempt.locked())
    node.nursery = node.start_nursery()
    node.tell(f"start {attempt.path}")
    node.start("true").exit()
    assert attempt.log() == "begun\n"
    assert attempt.read("exit") is None


def test_children_that_end_by_themselves_are_left_in_peace(node: Node) -> None:
    attempt = node.shell(
        "(trap 'echo killed' TERM; read line <input; sleep 0.05; echo done) & exit 0"
    )
    ended = attempt.exit()
    assert attempt.log() == "done\n"
    assert ended["exit_code"] == 0


def test_the_log_is_whole_after_everything_was_killed(node: Node) -> None:
    attempt = node.shell("seq 20000; echo end; exec sleep 1000")
    running = attempt.running()
    wait_for(lambda: attempt.log().endswith("end\n"))
    node.nursery.kill()
    for pid in (running["keeper"], running["pid"]):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not attempt.locked())
    assert attempt.log().splitlines() == [*map(str, range(1, 20001)), "end"]


def test_what_the_tree_used_is_counted_orphans_too(node: Node) -> None:
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"
    attempt = node.shell(f"(setsid sh -c '{burn}' &) ; {burn}; sleep 0.1; exit 0")
    usage = attempt.exit()["usage"]
    assert usage["user"] > 0.0
    assert usage["peak"] > 100_000


def test_running_says_who_it_is(node: Node) -> None:
    attempt = node.shell("exec sleep 1000")
    running = attempt.running()
    started = Path(f"/proc/{running['pid']}/stat").read_text().rpartition(")")[2].split()[19]
    assert running["started"] == int(started)
    assert Path(f"/proc/{running['keeper']}/comm").read_text() == "stayer-keeper\n"
    assert attempt.locked()


def test_a_lost_directory_ends_its_task(node: Node) -> None:
    attempt = node.nasty("setsid")
    running = attempt.running()
    attempt.path.rename(node.state / "elsewhere")
    attempt.path.mkdir()
    os.kill(running["keeper"], signal.SIGUSR1)
    wait_for(attempt.nothing_is_left)
    wait_for(lambda: state_of(running["keeper"]) in {"", "Z"})
    (attempt.path / "running").write_text("{}")


def test_a_deleted_state_directory_ends_its_tasks(make_node: Callable[..., Node]) -> None:
    node = make_node()
    attempt = node.nasty("double_fork")
    running = attempt.running()
    node.state.rename(node.state.with_name("gone"))
    os.kill(running["keeper"], signal.SIGUSR1)
    wait_for(attempt.nothing_is_left)
    node.state.with_name("gone").rename(node.state)


def test_a_result_that_is_a_pipe_holds_nobody_up(node: Node) -> None:
    attempt = node.shell("mkfifo result checkpoint")
    assert attempt.exit()["exit_code"] == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if (
        os.getuid() != 0
        or os.system(f"mount -t tmpfs -o size=256k none {tmp_path} 2>/dev/null") != 0
    ):
        pytest.skip("may not mount a small file system here")
    yield tmp_path
    os.system(f"umount -l {tmp_path}")


def test_a_full_disk_loses_no_ending(make_node: Callable[..., Node], small_disk: Path) -> None:
    node = make_node(state=small_disk)
    attempt = node.shell("cat /dev/zero >fill 2>/dev/null; echo lost; exit 3")
    ended = attempt.exit()
    assert ended["exit_code"] == 3
    assert os.statvfs(small_disk).f_bavail <= 4
    wait_for(lambda: not attempt.locked())
    (attempt.files / "fill").unlink()


def test_a_full_disk_costs_the_log_and_not_the_task(
    make_node: Callable[..., Node], small_disk: Path
) -> None:
    node = make_node(state=small_disk)
    attempt = node.shell(
        # More than a pipe holds: when it is out, the disk has refused some of it.
        "cat /dev/zero >fill 2>/dev/null; head -c 200000 /dev/zero && rm fill && echo back"
    )
    assert attempt.exit()["exit_code"] == 0
    log = attempt.log()
    assert re.search(r"\n\[stayer: \d+ bytes of the log could not be written\]\n", log)
    assert log.endswith("back\n")


def test_who_writes_to_the_device_of_standard_error_does_not_empty_the_log(node: Node) -> None:
    attempt = node.shell("echo 1; echo 2 > /dev/stderr; echo 3; echo 4 > /dev/stdout; echo 5")
    attempt.exit()
    assert (attempt.files / "log").read_text().split() == ["1", "2", "3", "4", "5"]


def test_the_last_words_of_a_task_that_is_killed_are_kept(node: Node) -> None:
    attempt = node.shell("seq 5000; kill -9 $$")
    assert attempt.exit()["signal"] == 9
    assert (attempt.files / "log").read_text().split() == [str(n) for n in range(1, 5001)]


def test_a_log_is_capped_while_it_grows_and_no_line_moves(node: Node) -> None:
    cap, lines = 1_000_000, 3_000_000
    attempt = node.shell(f"seq -f %07.0f 1 {lines}; echo end", log_cap=cap)
    attempt.exit()
    seen = (attempt.files / "log").stat()
    assert seen.st_size == 8 * lines + 4 > 20 * cap
    assert seen.st_blocks * 512 < 1.2 * cap
    with (attempt.files / "log").open("rb") as file:
        for number in (1, 2, 20_000, lines - 50_000, lines):
            file.seek(8 * (number - 1))
            assert file.read(8) == b"%07d\n" % number
        file.seek(8 * (lines // 2))
        assert file.read(8) == bytes(8)
        file.seek(-4, os.SEEK_END)
        assert file.read() == b"end\n"


def test_names_that_are_not_known_are_passed_over(node: Node) -> None:
    attempt = node.shell(
        "while [ ! -e leave ]; do sleep 0.02; done; exit 6",
        limits={"time": 1000.0, "light": 3.0}, gravity={"up": [1, None]}, cgroups=["/"],
    )  # fmt: skip
    attempt.running()
    orders = {"dance": True, "limits": {"noise": 4.0}, "stop": None, "again": [[1, "SIGKILL"]]}
    attempt.go(paused=True, **orders)
    wait_for(lambda: attempt.stopped() == ["paused"])
    attempt.go(paused=False, **orders)
    wait_for(lambda: attempt.stopped() == [])
    (attempt.files / "leave").touch()
    assert (attempt.exit()["exit_code"], attempt.exit()["stop"]) == (6, None)


def test_suspended_or_not_it_ran_for_a_while(node: Node) -> None:
    before = time.monotonic()
    ended = node.shell("sleep 0.2").exit()
    assert 0.2 <= ended["ran"] <= time.monotonic() - before


def test_what_it_left_is_on_the_disk_before_anyone_can_read_that_it_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "result").write_text("é" * (SMALL_RESULT // 2) + "more")
    (tmp_path / "checkpoint").write_text("work")
    synced: list[str] = []

    def sync(descriptor: int) -> None:
        ended = (tmp_path / "exit").exists()
        synced.append(f"{Path(os.readlink(f'/proc/self/fd/{descriptor}')).name}, {ended}")

    monkeypatch.setattr(os, "fsync", sync)
    RunDirectory(str(tmp_path)).write_exit({"exit_code": 0})
    folder = tmp_path.name
    before = [f"{name}, False" for name in ("exit.tmp", "checkpoint", "result", folder)]
    assert synced == [*before, f"{folder}, True"]
    assert "result" not in json.loads((tmp_path / "exit").read_text())

    # A small one is in that word itself, whatever it takes to write it as JSON.
    (tmp_path / "checkpoint").unlink()
    for text in ("\x01" * SMALL_RESULT, "é" * (SMALL_RESULT // 2), ""):
        synced.clear()
        (tmp_path / "result").write_text(text)
        RunDirectory(str(tmp_path)).write_exit({"exit_code": 0})
        assert synced == ["exit.tmp, True", f"{folder}, True"]
        assert json.loads((tmp_path / "exit").read_text())["result"] == text
        assert (tmp_path / "exit").stat().st_size < EXIT_SIZE
    assert outcome_files._SMALL_RESULT == SMALL_RESULT
