"""The recipes for other libraries work. Those that are too large have stand-ins with just what a
recipe uses of them.
"""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path

import pytest

from stayer import Client
from tests.docs.pages import PATIENCE, blocks
from tests.docs.reader import Reader

WEB, LOOPS, PROGRAMS = (
    f"how-to/{page}.md"
    for page in ("use-with-web-frameworks", "use-with-training-loops", "wrap-programs")
)


def follow(reader: Reader, page: str) -> None:
    for block in blocks(page):
        if block.title:
            reader.follow(block)


def write(reader: Reader, **files: str) -> None:
    """Write modules; `a__b` is the module `a.b`."""
    for name, code in files.items():
        *folders, module = name.split("__")
        folder = reader.folder.joinpath(*folders)
        folder.mkdir(parents=True, exist_ok=True)
        for depth in range(1, len(folders) + 1):
            reader.folder.joinpath(*folders[:depth], "__init__.py").touch()
        (folder / f"{module}.py").write_text(code)


def test_fastapi(reader: Reader) -> None:
    follow(reader, WEB)
    write(
        reader,
        use="""
import stayer.testing, web, reports
from fastapi.testclient import TestClient

with stayer.testing.store(reports.app) as store, TestClient(web.api) as client:
    made = [client.post("/reports/ann?month=may").json() for _ in range(2)]
    assert made == [{"id": "report-ann-may", "state": "pending"}] * 2
    store.drain()
    print(client.get("/reports/report-ann-may").json(), client.get("/reports/none").status_code)
""",
    )
    said = reader.run("python3 use.py")
    assert "'state': 'complete', 'progress': 30" in said
    assert said.endswith(" 404\n")
    assert "1 passed" in reader.run("python3 -m pytest -q test_web.py")


def test_an_app_that_gunicorn_has_loaded_before_it_forks(reader: Reader) -> None:
    """Used by the parent, too; and its children answer side by side."""
    write(
        reader,
        shop="""
import os, stayer
app = stayer.App()

@app.task
def look(pid: int) -> None: ...

look.submit(0)
loaded_by = os.getpid()

def page(environ, start_response):
    look.submit(os.getpid())
    start_response("200 OK", [])
    return [f"{loaded_by} {os.getpid()}".encode()]
""",
    )
    listening = reader.folder / "socket"
    server = reader.start(
        "-m", "gunicorn", "--preload", "--workers=2", f"--bind=unix:{listening}", "shop:page"
    )
    try:
        while not listening.exists():
            assert server.poll() is None
            time.sleep(0.02)
        answers = [ask(listening).split() for _ in range(12)]
    finally:
        server.terminate()
        server.wait(PATIENCE)
    [parent], children = ({each[place] for each in answers} for place in (0, 1))
    assert parent not in children
    with Client(f"sqlite:///{reader.folder}/data/stayer/stayer.db") as client:
        told = [str(task.parameters) for task in client.find()]
    assert sorted(told) == sorted(
        f"{{'pid': {pid}}}" for pid in ["0", *(pid for _, pid in answers)]
    )


def ask(listening: Path) -> str:
    """The body of the answer to a request."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(listening))
        connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as file:
            return file.read().rpartition(b"\r\n\r\n")[2].decode()


@pytest.mark.parametrize("interface", ["django.tasks", "django_tasks"])
def test_django(reader: Reader, interface: str) -> None:
    """Django has it since 6.0, which needs Python 3.12; the package django-tasks is for others."""
    is_new = sys.version_info >= (3, 12)
    if is_new != (interface == "django.tasks"):
        pytest.skip(f"{interface} is tested with Python {'before' if is_new else 'from'} 3.12")
    follow(reader, WEB)
    write(
        reader,
        site_settings="""
SECRET_KEY = "x"
INSTALLED_APPS = []
TASKS = {"default": {"BACKEND": "stayer_backend.StayerBackend"}}
""",
        mail="""
from django.tasks import task

@task(priority=5, takes_context=True)
def send(context, to):
    if to == "nobody":
        raise ValueError("no such address")
    return f"sent to {to}"
""",
        use="""
import os
os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
import django; django.setup()
import mail, stayer.testing, stayer_backend
with stayer.testing.store(stayer_backend.app) as store:
    good, bad = mail.send.enqueue("ann"), mail.send.enqueue("nobody")
    store.drain(check=False)
    good.refresh(); bad.refresh()
    print(good.return_value, bad.status, bad.errors[0].exception_class.__name__)
""",
    )
    for file in reader.folder.glob("*.py"):
        file.write_text(file.read_text().replace("django.tasks", interface))
    assert reader.run("python3 use.py") == "sent to ann FAILED ValueError\n"


def test_torch(reader: Reader) -> None:
    follow(reader, LOOPS)
    write(
        reader,
        torch="""
import pickle
def save(state, file): pickle.dump(state, file)
def load(file, weights_only): return pickle.load(file)
""",
        jobs="""
import stayer, train_torch

class Model:
    def __init__(self): self.state = {"weight": 0}
    def state_dict(self): return dict(self.state)
    def load_state_dict(self, state): self.state = state

def epoch(model, optimizer):
    model.state["weight"] += 1
    return 1 / model.state["weight"]

def train() -> int:
    model = Model()
    train_torch.train(model, Model(), epoch, 4)
    return model.state["weight"]
""",
        stop="""
import jobs, stayer, train_torch
task = stayer.Context.for_test()
def epoch(model, optimizer):
    task.request_stop()
    return 1.0
with task:
    try:
        train_torch.train(jobs.Model(), jobs.Model(), epoch, 4)
    except stayer.Stopped:
        print(type(task.restore()).__name__)
""",
    )
    said = reader.run("PYTHONPATH=. stayer rehearse jobs:train --random 0")
    assert said.count("the same result") == 6
    assert reader.run("python3 stop.py") == "bytes\n"


LIGHTNING = """
import types, stayer
from stayer_lightning import StayerCallback, last_checkpoint

task = stayer.Context.for_test()
with task:
    trainer = types.SimpleNamespace(
        current_epoch=0, max_epochs=2, should_stop=False, callback_metrics={"loss": 0.5},
        checkpoint_callback=types.SimpleNamespace(last_model_path="/models/last.ckpt"),
    )
    assert last_checkpoint() is None
    callback = StayerCallback()
    callback.on_fit_start(trainer, None)
    callback.on_train_batch_end(trainer, None, None, None, 0)
    callback.on_train_epoch_end(trainer, None)
    assert not trainer.should_stop
    task.request_stop()
    callback.on_train_batch_end(trainer, None, None, None, 0)
    print(trainer.should_stop, last_checkpoint())
print((task.folder / "report").read_text())
"""
TRANSFORMERS = """
import types, stayer
from stayer_transformers import StayerCallback, last_checkpoint

args = types.SimpleNamespace(output_dir="/out")
state = types.SimpleNamespace(global_step=10, max_steps=40)
control = types.SimpleNamespace(should_save=False, should_training_stop=False)
task = stayer.Context.for_test()
with task:
    callback = StayerCallback()
    callback.on_train_begin(args, state, control)
    callback.on_log(args, state, control, logs={"loss": 0.25})
    callback.on_save(args, state, control)
    callback.on_step_end(args, state, control)
    assert not control.should_training_stop
    task.request_stop()
    callback.on_step_end(args, state, control)
    print(control.should_training_stop and control.should_save, last_checkpoint())
print((task.folder / "report").read_text())
"""


@pytest.mark.parametrize(
    ("library", "code", "use", "words"),
    [
        ("lightning__pytorch__callbacks", "class Callback: ...", LIGHTNING,
         ["True /models/last.ckpt", '"done": 1, "total": 2, "message": "loss 0.5000"']),
        ("transformers", "class TrainerCallback: ...", TRANSFORMERS,
         ["True /out/checkpoint-10", '"done": 10, "total": 40, "message": "loss 0.2500"']),
        ("unused", "", """
import stayer
from stayer_tqdm import tqdm
for each in tqdm("ab"): pass
task = stayer.Context.for_test()
with task:
    for each in tqdm("abc", desc="letters"): pass
print((task.folder / "report").read_text())
""", ["| 2/2 [", '"done": 3, "total": 3, "message": "letters"']),
        ("unused", "", """
import stayer
from stayer_rich import TaskProgress
task = stayer.Context.for_test()
with task, TaskProgress(auto_refresh=False) as progress:
    bar = progress.add_task("frames", total=8)
    progress.update(bar, completed=8, refresh=True)
print((task.folder / "report").read_text())
""", ['"done": 8, "total": 8, "message": "frames"']),
    ],
    ids=["lightning", "transformers", "tqdm", "rich"],
)  # fmt: skip
def test_libraries_with_a_loop_of_their_own(
    reader: Reader, library: str, code: str, use: str, words: list[str]
) -> None:
    follow(reader, LOOPS)
    write(reader, **{library: code, "use": use})
    said = reader.run("python3 use.py")
    for word in words:
        assert word.replace("\\n", "\n") in said, said


def test_a_script_goes_on_whenever_it_is_killed(reader: Reader) -> None:
    follow(reader, PROGRAMS)
    said = reader.run("stayer rehearse --random 2 -- sh steps.sh")
    assert "the same result" in said


FFMPEG = """
for last; do :; done
printf 'frame=1\\nout_time_ms=N/A\\nout_time_ms=3000000\\nprogress=continue\\n' >&3
test "$BROKEN" && exit 1
printf 'out_time_ms=7000000\\nprogress=end\\n' >&3
echo film > "$last"
"""


def test_ffmpeg(reader: Reader) -> None:
    follow(reader, PROGRAMS)
    for name, script in (("ffprobe", "echo 7.04"), ("ffmpeg", FFMPEG)):
        path = Path(reader.folder / "programs" / name)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    run = "STAYER_REPORT=report sh encode.sh in.mov out.mp4"
    reader.run(run)
    assert (reader.folder / "report").read_text() == "3/7 encoding\n7/7 encoding\n"
    assert (reader.folder / "out.mp4").read_text() == "film\n"
    (reader.folder / "out.mp4").unlink()
    reader.run(f"BROKEN=1 {run}", expected=1)
    assert not (reader.folder / "out.mp4").exists()
