"""The code of tasks that ask for none, as the owner of a worker says it: `--with`, `--git` …"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from stayer.core.happenings import Pin
from stayer.core.lifecycle import decide
from stayer.core.model import Code, Pinned, Task
from stayer.core.submit.checks import new_task
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.default_code import DefaultCode
from stayer.worker.task_code import CodeRules
from tests.cli.running import Here
from tests.code.conftest import CodeFleet, GitRepository
from tests.code.index import digest
from tests.code.test_requirements import SHOW, notes, stayer_retry
from tests.faults.fleet import until

FLAKY = ("sh", "-c", 'python -c "import greet; print(greet.VERSION)"; test $STAYER_ATTEMPT = 2')


def test_a_task_that_asks_for_nothing_runs_with_the_workers_code(fleet: CodeFleet) -> None:
    fleet.index.add("friendly", "1.0", requires=["greet"])
    fleet.starts("one", "--with", "friendly", allow=())
    fleet.submit("a", *SHOW)

    task = fleet.completed("a")

    assert fleet.log("a").endswith("greet 1.0\n")
    assert task.code is None
    assert task.pinned is not None
    assert task.lock is not None
    assert task.pinned.lock == hashlib.sha256(task.lock.encode()).hexdigest()
    assert [line.partition("==")[0] for line in task.lock.splitlines()] == ["friendly", "greet"]
    told = fleet.events("a")
    assert told.index("preparing") < told.index("pinned") < told.index("started")


def test_what_the_task_asks_for_goes_first_and_then_what_its_queue_says(fleet: CodeFleet) -> None:
    for version in ("2.0", "3.0"):
        fleet.index.add("greet", version)
    fleet.store.set_queue("default", defaults={"code": {"requirements": ["greet==2.0"]}})
    fleet.starts("one", "--with", "greet==1.0", "--queue", "default", "--queue", "other")
    fleet.add("task", *SHOW, code=Code("greet==3.0"))
    fleet.submit("queue", *SHOW)
    fleet.store.submit([new_task(queue="other", id="worker", command=SHOW)])

    for id in ("task", "queue", "worker"):
        fleet.completed(id)

    said = [fleet.log(id).split()[-1] for id in ("task", "queue", "worker")]
    assert said == ["3.0", "2.0", "1.0"]


def test_it_needs_no_permission_but_gives_tasks_none_either(fleet: CodeFleet) -> None:
    fleet.starts("one", "--with", "greet", allow=())
    fleet.add("a", *SHOW, code=Code("greet"))

    until(lambda: "no --allow-code names greet" in notes(fleet, "a"), "for it to be refused")


def test_a_retry_runs_what_the_first_attempt_ran_also_elsewhere(fleet: CodeFleet) -> None:
    first = fleet.starts("one", "--with", "greet", allow=())
    fleet.submit("a", *FLAKY)
    pinned = fleet.ended("a").pinned
    fleet.signal(first, 9)
    fleet.index.add("greet", "2.0")
    shutil.rmtree(fleet.cache)
    fleet.starts("two", "--with", "greet", allow=())

    stayer_retry(fleet, "a")

    assert fleet.completed("a").pinned == pinned
    assert fleet.log("a").split()[-1] == "1.0"


def test_what_was_resolved_here_needs_no_index_after_a_restart(fleet: CodeFleet) -> None:
    fleet.index.add("friendly", "1.0", requires=["greet"])
    first = fleet.starts("one", "--with", "friendly", allow=())
    fleet.submit("a", *FLAKY)
    fleet.ended("a")
    fleet.signal(first, 9)
    shutil.rmtree(fleet.index.folder)
    shutil.rmtree(fleet.cache / "uv")
    fleet.starts("one", "--with", "friendly", allow=())

    stayer_retry(fleet, "a")

    fleet.completed("a")


def test_the_latest_code_is_that_of_the_worker_by_then(fleet: CodeFleet) -> None:
    fleet.index.add("greet", "2.0")
    first = fleet.starts("one", "--with", "greet==1.0", allow=())
    fleet.submit("a", *FLAKY)
    fleet.ended("a")
    fleet.signal(first, 9)
    fleet.starts("two", "--with", "greet==2.0", allow=())

    stayer_retry(fleet, "a", latest_code=True)

    fleet.completed("a")
    assert fleet.log("a").split()[-1] == "2.0"


def test_a_worker_without_that_code_leaves_the_task_to_others(fleet: CodeFleet) -> None:
    first = fleet.starts("one", "--with", "greet", allow=())
    fleet.submit("a", *FLAKY)
    fleet.ended("a")
    fleet.signal(first, 9)
    fleet.worker("two", lease=20.0)

    stayer_retry(fleet, "a")

    until(lambda: "this worker installs none" in notes(fleet, "a"), "for it to be refused")


def test_a_pin_of_other_packages_is_not_taken_for_the_default(fleet: CodeFleet) -> None:
    """Whoever can write to the store must not decide what is installed."""
    wheel = fleet.index.add("evil", "1.0")
    lock = f"evil==1.0 --hash=sha256:{digest(wheel)}\n"
    fleet.submit("a", *SHOW)
    pinned = Pinned("3.11", hashlib.sha256(lock.encode()).hexdigest())
    assert fleet.store.commit([decide(fleet.get("a"), Pin(pinned, lock))])[0] is not None

    fleet.starts("one", "--with", "greet", allow=())

    until(lambda: "no --allow-code names evil" in notes(fleet, "a"), "for it to be refused")
    assert fleet.environments() == []


@pytest.mark.parametrize("git", ["https://host/evil", "file:///srv/evil", "ext::sh -c x", "-u"])
def test_a_pin_to_another_repository_is_refused(git: str, tmp_path: Path) -> None:
    default = DefaultCode(Code(git="https://host/good@main#jobs"), tmp_path)
    rules = CodeRules(allowed=(), folder=tmp_path, uv="uv", git="git", default=default)
    pinned = Pinned("3.11", commit="2" * 40, git="https://host/good#jobs")
    good = Task("a", "q", pinned=pinned)
    rules.check(good)

    with pytest.raises(NotAllowed):
        rules.check(replace(good, pinned=replace(pinned, git=git)))


def test_a_pin_to_what_is_in_no_branch_of_the_repository_is_not_run(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    """Some servers give out commits of anybody's pull request under the same address."""
    repository.run("config", "uploadpack.allowAnySHA1InWant", "true")
    repository.commit(train="")
    evil = repository.commit(train="print('evil')")
    repository.run("reset", "--quiet", "--hard", "HEAD^")
    fleet.add("a", "python", "train.py", code=None)
    pin = Pin(Pinned("3.11", commit=evil, git=repository.url))
    assert fleet.store.commit([decide(fleet.get("a"), pin)])[0] is not None

    fleet.starts("one", "--git", f"{repository.url}@main", allow=())

    task = fleet.ended("a")
    assert (task.state, task.ending) == ("failed", "environment")
    assert task.error is not None
    assert "in no branch or tag" in task.error.message


def test_functions_of_a_workers_repository_run_by_name(
    fleet: CodeFleet, repository: GitRepository
) -> None:
    toml = '[project]\nname = "acme"\nversion = "1"\ndependencies = ["greet"]\n'
    work = "import greet\ndef fit(epochs: int) -> list:\n    return [greet.VERSION, epochs]\n"
    files = {"models__pyproject.toml": toml, "models__acme__work": work}
    commit = repository.commit(**files)
    fleet.starts("one", "--git", f"{repository.url}@main#models", allow=(), commands=False)
    fleet.add("a", name="acme.work:fit", parameters={"epochs": 3}, code=None)

    task = fleet.completed("a")

    assert task.result == ["1.0", 3]
    assert task.pinned is not None
    assert (task.pinned.commit, task.pinned.git) == (commit, f"{repository.url}#models")


def test_with_something_else_to_run_no_function_is_called_by_name(fleet: CodeFleet) -> None:
    """Whoever says `--run` has not said that others may call all that is in its packages."""
    run = fleet.folder / "job.py"
    run.write_text(
        "class Run:\n    def __init__(self, task): pass\n"
        "    def run(self):\n        import greet\n        return greet.VERSION\n"
    )
    fleet.starts("one", "--with", "greet", "--run", str(run), allow=(), commands=False)
    fleet.add("a", name="greet:anything", code=None)
    fleet.add("b", code=None)

    assert fleet.completed("b").result == "1.0"
    assert fleet.get("a").state == "pending"


def test_files_that_a_task_sends_come_to_the_code_of_its_worker(fleet: CodeFleet) -> None:
    from stayer.service import sent_files

    script = fleet.folder / "train.py"
    script.write_text("import greet; print(greet.VERSION)\n")
    sent = replace(sent_files.send(fleet.store, str(script)), name="train.py")
    fleet.starts("one", "--with", "greet", allow=())
    fleet.add("a", "python", "train.py", code=Code(files=(sent,)))

    fleet.completed("a")

    assert fleet.log("a").endswith("1.0\n")


def test_tasks_of_a_map_run_the_same_code_of_their_worker(fleet: CodeFleet) -> None:
    import stayer

    client = stayer.Client(fleet.url)
    flow = stayer.Flow("greetings")
    go = fleet.folder / "go"
    show = "python -c 'import greet; print(greet.VERSION)'"
    script = f"until test -e {go}; do sleep 0.02; done; {show}"
    flow.map(["sh", "-c", script], ["a", "b"], part="each", at_once=1)
    submitted = client.submit(flow)
    ids = [f"{submitted.id}.each.{number}" for number in range(2)]
    fleet.starts("one", "--with", "greet", allow=())
    fleet.until_state(ids[0], "started")
    fleet.index.add("greet", "2.0")
    shutil.rmtree(fleet.cache / "uv")

    go.touch()

    assert len({str(fleet.completed(id).pinned) for id in ids}) == 1
    client.close()


def test_the_settings_of_a_worker_say_it_too(fleet: CodeFleet) -> None:
    (fleet.folder / "needs.txt").write_text("greet==1.0\n")
    settings = fleet.folder / "stayer.toml"
    settings.write_text('[worker]\nrequirements = "needs.txt"\npython = ">=3.9"\n')
    fleet.starts("one", "--config", str(settings), allow=())
    fleet.submit("a", *SHOW)

    task = fleet.completed("a")

    assert task.pinned is not None
    assert fleet.log("a").endswith("greet 1.0\n")


def test_a_flag_takes_the_place_of_all_that_the_settings_say(stayer: Here, folder: Path) -> None:
    (folder / "stayer.toml").write_text('[worker]\nwith = ["numpy"]\ngit = "https://host/x"\n')

    stayer("config", "--write", "new.toml", "--with", "rich", "--app", "jobs").works()

    assert 'with = ["rich"]' in (folder / "new.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--with", "-e ."), "options are not for a task to say"),
        (("--git", "ext::sh"), "write https://"),
        (("--requirements", "gone.txt"), "can't be read"),
        (("--with", "numpy", "--app", "jobs", "--preload"), "leave one of them out"),
        (("--with", "numpy", "--app", "jobs", "--threads", "2"), "processes of their own"),
    ],
)
def test_what_a_worker_cant_give_its_tasks_is_said(
    stayer: Here, words: tuple[str, ...], said: str
) -> None:
    stayer("worker", *words).refuses(said)
