"""Code from git: a ref becomes a commit, and stays it; nothing of a repository runs unasked."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.core.code import check_pattern, not_allowed
from stayer.core.errors import BadInput
from stayer.core.model import Code, Pinned, Task
from stayer.core.submit.checks import new_task
from stayer.task.prepare.build import project_requirements
from stayer.task.prepare.cache import Lock
from stayer.task.prepare.programs import Programs, Unprepared
from stayer.task.prepare.repositories import Repository
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.task_code import CodeRules
from tests.code.conftest import CodeFleet, GitRepository
from tests.code.test_requirements import notes, stayer_retry
from tests.faults.fleet import until


def test_a_command_runs_in_the_checkout_of_its_commit(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    commit = repository.commit(train="print('first version')\n")
    fleet.starts(allow=("*", f"{repository.url}*"))
    fleet.add("a", "python", "train.py", code=Code(git=f"{repository.url}@main"))

    task = fleet.completed("a")

    assert "first version" in fleet.log("a")
    assert task.pinned is not None
    assert task.pinned.commit == commit


def test_a_ref_that_moves_does_not_change_what_a_task_runs(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    first = repository.commit(train="raise SystemExit('first')\n")
    fleet.starts(allow=(f"{repository.url}*",))
    fleet.add("a", "python", "train.py", code=Code(git=repository.url))
    assert fleet.ended("a").state == "failed"
    second = repository.commit(train="print('second')\n")

    stayer_retry(fleet, "a")
    again = fleet.ended("a")
    assert (again.attempt, again.state, again.pinned and again.pinned.commit) == (
        2, "failed", first
    )  # fmt: skip
    stayer_retry(fleet, "a", latest_code=True)

    latest = fleet.completed("a")
    assert latest.pinned is not None
    assert latest.pinned.commit == second


def test_a_repository_that_is_gone_still_serves_what_was_taken(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    commit = repository.commit(train="print('still here')\n")
    fleet.starts(allow=(f"{repository.url}*",))
    fleet.add("a", "python", "train.py", code=Code(git=f"{repository.url}@{commit}"))
    fleet.completed("a")
    shutil.rmtree(repository.folder)
    shutil.rmtree(fleet.cache / "envs")

    fleet.add("b", "python", "train.py", code=Code(git=f"{repository.url}@{commit}"))

    fleet.completed("b")


def test_a_function_of_a_repository_runs_without_an_app(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    repository.commit(
        **{
            "pyproject.toml": '[project]\nname = "acme"\nversion = "1"\ndependencies = ["greet"]\n',
            "src__acme____init__": "",
            "src__acme__work": "from datetime import date\nimport greet\n"
            "def year(day: date, plus: int = 0) -> dict[str, object]:\n"
            "    return {'year': day.year + plus, 'greet': greet.VERSION}\n",
        }
    )
    fleet.starts(allow=("greet", f"{repository.url}*"))
    code = Code(git=f"{repository.url}@main")
    fleet.add("a", name="acme.work:year", parameters={"day": "2026-11-18", "plus": 1}, code=code)

    assert fleet.completed("a").result == {"year": 2027, "greet": "1.0"}


def test_a_class_of_a_repository_runs_with_what_it_needs(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    work = (
        "import greet\n"
        "class Train:\n"
        "    def __init__(self, task): self.task = task\n"
        "    def run(self):\n"
        "        self.task.progress(1, 1, 'trained')\n"
        "        return [greet.VERSION, self.task.parameters['epochs'], self.task.queue]\n"
    )
    repository.commit(acme__train=work)
    fleet.starts(allow=("greet", f"{repository.url}*"))
    code = Code("greet", git=repository.url)
    fleet.add("a", name="acme.train:Train", parameters={"epochs": 3}, code=code)

    task = fleet.completed("a")

    assert task.result == ["1.0", 3, "default"]
    assert task.progress is not None
    assert task.progress.message == "trained"


def test_no_hook_runs_and_no_submodule_is_fetched(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    show = "import os; print('inner', os.listdir('inner') if os.path.exists('inner') else [])\n"
    first = repository.commit(train=show)
    modules = f'[submodule "inner"]\n\tpath = inner\n\turl = {repository.url}\n'
    repository.run("update-index", "--add", "--cacheinfo", f"160000,{first},inner")
    repository.commit(**{".gitmodules": modules})
    # Every repository that git makes with this template has a hook for when files are written.
    hook = fleet.folder / "template" / "hooks" / "post-index-change"
    hook.parent.mkdir(parents=True)
    hook.write_text(f"#!/bin/sh\ntouch {fleet.folder}/hooked\n")
    hook.chmod(0o755)
    template = f"GIT_TEMPLATE_DIR={fleet.folder}/template"
    fleet.starts("one", "--code-env", template, allow=(f"{repository.url}*",))
    fleet.add("a", "python", "train.py", code=Code(git=repository.url))

    fleet.completed("a")

    assert fleet.log("a").endswith("inner []\n")
    assert not (fleet.folder / "hooked").exists()


def test_a_fetch_that_was_killed_leaves_nothing_in_the_way(
    repository: GitRepository, tmp_path: Path
) -> None:
    """git keeps its own locks in files, which nobody removes when it is killed."""
    here = copy_of(repository, tmp_path)
    first, second = repository.commit(a=""), repository.commit(b="")
    here.check_out(first, str(tmp_path / "first"))
    [copy] = (tmp_path / "git").glob("*/HEAD")
    for name in ("shallow.lock", "refs/heads/main.lock"):
        (copy.parent / name).parent.mkdir(exist_ok=True)
        (copy.parent / name).touch()

    here.check_out(second, str(tmp_path / "second"))

    assert (tmp_path / "second" / "b.py").exists()


def test_a_copy_whose_making_was_killed_is_made_again(
    repository: GitRepository, tmp_path: Path
) -> None:
    commit = repository.commit(a="")
    here = copy_of(repository, tmp_path)
    half = tmp_path / "git" / f"{hashlib.sha256(repository.url.encode()).hexdigest()[:32]}.new"
    half.mkdir()
    (half / "HEAD").touch()

    here.check_out(commit, str(tmp_path / "files"))

    assert (tmp_path / "files" / "a.py").exists()


def test_a_fetch_that_stands_still_keeps_nobody_waiting(
    repository: GitRepository, tmp_path: Path
) -> None:
    commit = repository.commit(a="")
    path = str(tmp_path / "git" / hashlib.sha256(repository.url.encode()).hexdigest()[:32])
    here = copy_of(repository, tmp_path)
    frozen = Lock(path)
    assert frozen.take(fcntl.LOCK_EX)
    os.utime(frozen.descriptor, (1.0, 1.0))

    here.check_out(commit, str(tmp_path / "files"))
    copy_of(repository, tmp_path).check_out(commit, str(tmp_path / "again"))

    assert (tmp_path / "files" / "a.py").exists()
    assert [each.parent.suffix for each in (tmp_path / "git").glob("*/HEAD")] == [".1"]
    frozen.close()


def test_to_wait_for_a_copy_takes_no_longer_than_all_of_it_may(
    repository: GitRepository, tmp_path: Path
) -> None:
    path = str(tmp_path / "git" / hashlib.sha256(repository.url.encode()).hexdigest()[:32])
    here = copy_of(repository, tmp_path, time_limit=0.0)
    busy = Lock(path)
    assert busy.take(fcntl.LOCK_EX)

    with pytest.raises(Unprepared, match="longer than the 0 seconds") as raised:
        here.check_out(repository.commit(a=""), str(tmp_path / "files"))

    assert raised.value.passing
    busy.close()


def test_a_copy_is_locked_while_any_git_is_at_it(repository: GitRepository, tmp_path: Path) -> None:
    """Who runs git may be killed alone."""
    commit = repository.commit(a="")
    git, held = tmp_path / "git-that-waits", tmp_path / "held"
    git.write_text(
        f'#!/bin/sh\ncase "$*" in *" fetch "*) ls -l /proc/self/fd >> {held};; esac\n'
        'exec git "$@"\n'
    )
    git.chmod(0o755)

    copy_of(repository, tmp_path, git=str(git)).check_out(commit, str(tmp_path / "files"))

    assert ".lock" in held.read_text()


def copy_of(
    repository: GitRepository, folder: Path, *, git: str = "git", time_limit: float = 60.0
) -> Repository:
    programs = Programs(os.environ, time_limit)
    return Repository(programs, git, str(folder / "git"), repository.url, any_commit=True)


def test_a_branch_that_is_not_there_is_said(fleet: CodeFleet, repository: GitRepository) -> None:
    repository.commit(train="")
    fleet.starts(allow=(f"{repository.url}*",))
    fleet.add("a", "python", "train.py", code=Code(git=f"{repository.url}@nowhere"))

    task = fleet.ended("a")

    assert (task.state, task.ending) == ("failed", "environment")
    assert task.error is not None
    assert "no branch, tag or commit nowhere" in task.error.message


def test_a_commit_of_a_pull_request_is_not_that_of_the_repository(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    """Whoever opens one adds commits to what a server gives out under an allowed address."""
    first = repository.commit(train="print('ours')\n")
    repository.commit(train="print('newer')\n")
    repository.run("checkout", "--quiet", "-b", "theirs")
    theirs = repository.commit(train="print('theirs')\n")
    repository.run("update-ref", "refs/pull/1/head", theirs)
    repository.run("checkout", "--quiet", "main")
    repository.run("branch", "--quiet", "-D", "theirs")
    fleet.starts(allow=(f"{repository.url}*",))
    for id, ref in (("a", theirs), ("b", "refs/pull/1/head"), ("c", first)):
        fleet.add(id, "python", "train.py", code=Code(git=f"{repository.url}@{ref}"))

    for id in "ab":
        task = fleet.ended(id)
        assert task.ending == "environment", fleet.log(id)
        assert task.error is not None
        assert "whoever opens a pull request can add other commits" in task.error.message
    fleet.completed("c")
    assert "ours" in fleet.log("c")


def test_who_may_run_any_code_may_run_that_of_a_pull_request(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "repository")
    repository.commit(train="")
    repository.run("checkout", "--quiet", "--detach")
    commit = repository.commit(train="print('theirs')\n")
    repository.run("update-ref", "refs/pull/1/head", commit)
    repository.run("checkout", "--quiet", "main")
    programs = Programs({"GIT_ALLOW_PROTOCOL": "file", "PATH": os.defpath}, 60.0)

    def copy(name: str, *, any_commit: bool) -> Repository:
        folder = str(tmp_path / name)
        return Repository(programs, "git", folder, repository.url, any_commit=any_commit)

    free = copy("free", any_commit=True)
    free.check_out(free.resolve("refs/pull/1/head"), str(tmp_path / "files"))
    assert (tmp_path / "files" / "train.py").read_text() == "print('theirs')\n"
    with pytest.raises(Unprepared, match="no branch or tag"):
        copy("strict", any_commit=False).check_out(commit, str(tmp_path / "others"))


def test_commits_before_and_behind_the_newest_are_found(tmp_path: Path) -> None:
    """The newest one is fetched alone, and the history is cut there, until another is wanted."""
    repository = GitRepository(tmp_path / "repository")
    old = repository.commit(train="old")
    tip = repository.commit(train="tip")
    programs = Programs({"GIT_ALLOW_PROTOCOL": "file", "PATH": os.defpath}, 60.0)
    copy = Repository(programs, "git", str(tmp_path / "copy"), repository.url, any_commit=False)
    copy.check_out(tip, str(tmp_path / "tip"))
    new = repository.commit(train="new")
    repository.commit(train="newer")

    for number, commit in enumerate((new, old)):
        copy.check_out(commit, str(tmp_path / f"{number}"))

    assert [(tmp_path / name / "train.py").read_text() for name in ("tip", "0", "1")] == [
        "tip", "new", "old"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "git", "is_allowed"),
    [
        ("https://git.example.org/acme/*", "https://git.example.org/acme/a/b", True),
        ("https://git.example.org/acme/*", "https://git.example.org/other", False),
        ("https://*.example.org/*", "https://git.example.org/acme/x", True),
        ("https://*.example.org/*", "https://evil.com/x.example.org/y", False),
        ("https://*/acme/x", "https://evil.com/x/acme/x", False),
        ("https://git.example.org/*", "http://git.example.org/x", False),
        ("file:///srv/git/*", "file:///srv/git/a/b", True),
    ],
)
def test_a_pattern_of_a_host_stands_for_no_folder_of_another(
    pattern: str, git: str, is_allowed: bool
) -> None:
    assert (list(not_allowed((), git, (check_pattern(pattern),))) == []) == is_allowed


@pytest.mark.parametrize("pattern", ["https://git.example.org*", "https://*", "file://*"])
def test_a_pattern_without_an_end_of_its_host_is_refused(pattern: str) -> None:
    with pytest.raises(BadInput, match="say where the host ends"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    "need",
    ["greet @ https:evil.org/${UV_INDEX_PASSWORD}/x.whl", "./inner", "greet\r--index-url https:x",
     "/etc/passwd", "-r x", "greet @ file:/x.whl"],
)  # fmt: skip
def test_a_project_names_packages_and_nothing_that_uv_would_look_into(
    need: str, tmp_path: Path
) -> None:
    listed = json.dumps([need])
    (tmp_path / "pyproject.toml").write_text(f"[project]\ndependencies = {listed}\n")
    with pytest.raises(Unprepared, match="name a package and a version"):
        project_requirements(str(tmp_path))


def test_packages_of_a_project_are_taken_as_they_are_written(tmp_path: Path) -> None:
    needs = ["numpy", "a[x, y] >= 1, <2", "b (>=1.0+cu12)", "c~=1.0; python_version < '3.9'"]
    text = f"[project]\ndependencies = {json.dumps(needs)}\n"
    (tmp_path / "pyproject.toml").write_text(text)
    assert project_requirements(str(tmp_path)) == needs


def test_a_folder_of_the_worker_is_no_repository_unless_it_is_named(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    repository.commit(train="")
    fleet.starts(allow=("*",))
    fleet.add("a", "python", "train.py", code=Code(git=repository.url))

    until(lambda: "no --allow-code names file:" in notes(fleet, "a"), "for it to be refused")

    assert not (fleet.cache / "git").exists()


@pytest.mark.parametrize(
    ("git", "said"),
    [
        ("--upload-pack=touch /tmp/x", "write https://"),
        ("ext::sh -c touch% /tmp/x", "write https://"),
        ("ext://host/path", "ext is not taken"),
        ("file:///etc/../root", "without .."),
        ("file:///srv/open/%2e%2E/closed", "without %"),
        ("ssh://git@host/acme/x%2f..%2fevil", "without %"),
        ("https://host/acme/%252e%252e/evil", "without %"),
        ("ssh://host%2fevil/acme/x", "without %"),
        ("https://evil.com?x.example.org/acme/x", "no name of a host"),
        ("https://evil.com\\.example.org/acme/x", "no name of a host"),
        ("ssh://git;x@host/acme/x", "no name of a host"),
        ("https://host/repo@--upload-pack=x", "is no branch, tag or commit"),
        ("https://user:secret@host/repo", "credentials"),
        ("ssh://-oProxyCommand=x/repo", "write https://"),
        ("https://host/repo#../../etc", "is no folder"),
    ],
)
def test_addresses_that_could_mean_something_else_are_refused(git: str, said: str) -> None:
    with pytest.raises(BadInput, match=said) as refused:
        new_task(queue="q", command=("true",), code=Code(git=git))
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "hostile",
    [
        {"code": Code(python="/tmp/evil/python")},
        {"code": Code(python="--config-file=/tmp/evil")},
        {"code": Code(git="ext::sh -c touch% /tmp/x")},
        {"code": Code(git="--upload-pack=touch /tmp/x")},
        {"code": Code(("--index-url=http://evil/",))},
        {"pinned": Pinned("/tmp/evil/python")},
        {"pinned": Pinned("3.11", commit="--upload-pack=x")},
        {"lock": "other==1\n"},
    ],
    ids=str,
)  # fmt: skip
def test_what_somebody_wrote_into_the_store_is_refused_by_the_worker(
    hostile: dict[str, object], tmp_path: Path
) -> None:
    rules = CodeRules(allowed=("*",), folder=tmp_path, uv="uv", git="git")
    asked = Code("greet", git="https://host/x")
    lock = f"greet==1 --hash=sha256:{'0' * 64}\n"
    digest = hashlib.sha256(lock.encode()).hexdigest()
    good = Task("a", "q", code=asked, pinned=Pinned("3.11", digest, "2" * 40), lock=lock)
    rules.check(good)

    with pytest.raises(NotAllowed, match="can't be read"):
        rules.check(replace(good, **hostile))


@pytest.mark.parametrize(
    "requirement",
    ["--index-url=http://evil/", "-r other.txt", "-e .", "greet @ file:///etc", "../greet",
     "greet; --hash", "git+https://host/x", "a" * 2000],
)  # fmt: skip
def test_requirements_that_are_no_packages_are_refused(requirement: str) -> None:
    with pytest.raises(BadInput, match="requirement"):
        new_task(queue="q", command=("true",), code=Code(requirement))
