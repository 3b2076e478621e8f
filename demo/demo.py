"""`make demo`: a worker is killed, then its whole machine; a task fails; then the web page.

`make demo ARGS="--store URL"` plays it on a store of yours, in a queue of its own.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import janitor

import stayer

HERE = Path(__file__).parent
QUEUE = "demo"


def main() -> None:
    """Play it in a folder of its own, and leave nothing behind."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--store", help="play it on this store instead of one of its own")
    parser.add_argument("--page", action="store_true", help="serve the web page, terminal or not")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    folder = tempfile.mkdtemp(prefix="stayer-demo-")
    # In a session of its own, so that Ctrl-C and a closed window leave it alone.
    cleaner = subprocess.Popen(
        [sys.executable, janitor.__file__, folder], stdin=subprocess.PIPE, start_new_session=True
    )
    stage = Stage(Path(folder), options.store or f"sqlite:///{folder}/stayer.db")
    try:
        play(stage)
        end(stage, page=options.page or sys.stdout.isatty())
    except KeyboardInterrupt:
        print()
    finally:
        stage.close(own_store=options.store is None)
        cleaner.communicate()


def play(stage: Stage) -> None:
    """The story, about half a minute."""
    stage.title("Submit three commands. An id is accepted once")
    encode, train, second = (stage.id(name) for name in ("encode-1", "train-1", "encode-2"))
    stage.add(encode, "./encode.sh", "a.mov", "60")
    stage.add(train, "python", "train.py", "30")
    stage.add(second, "./encode.sh", "b.mov", "40")
    stage.add(second, "./encode.sh", "b.mov", "40")

    stage.title("A worker on node-1 runs two at a time")
    stage.start_worker("node-1")
    stage.until(lambda: stage.done(encode) > 5 and stage.done(train) > 1)
    stage.stayer("ls", "-q", QUEUE)

    stage.title("kill -9 of the worker. Its tasks keep running; the next worker adopts them")
    before = stage.done(encode)
    stage.kill_worker()
    stage.start_worker("node-1")
    stage.until(lambda: stage.has_ended(encode) or stage.done(encode) > before)
    stage.stayer("ls", "-q", QUEUE)

    stage.title("Now all of node-1 dies, tasks and all. node-2 takes them over when the lease ends")
    stage.kill_node("node-1")
    stage.start_worker("node-2")
    stage.until(lambda: stage.has_ended(train) or stage.task(train).attempt == 2)
    stage.until(lambda: stage.has_ended(train) or "loss" in stage.log(train))
    moved = stage.task(train).attempt == 2
    stage.say(f"{train} {'continues from its checkpoint' if moved else 'had already ended'}:")
    stage.stayer("log", train)

    stage.title("A task fails. This is why")
    orders = stage.id("import-orders")
    stage.add(orders, "python", "import_orders.py")
    stage.task(orders).ends_within(None)
    stage.stayer("show", orders)

    stage.title("All other tasks are complete. No retry was used")
    for id in (encode, train, second):
        stage.task(id).wait()
    stage.stayer("ls", "-q", QUEUE)
    stage.stayer("show", train)


def end(stage: Stage, page: bool) -> None:
    """What to do next, on the store just seen; and the page, until somebody has seen enough."""
    if not page:
        stage.say(
            "\nThis is no terminal, so the web page is left out: make demo ARGS=--page shows it"
        )
        return
    for number in range(3, 12):
        stage.enqueue(f"encode-{number}", "./encode.sh", f"{number}.mov", str(400 * number))
    stage.enqueue("train-2", "python", "train.py", "2000")
    stage.title("The web page: open the link. Ctrl-C ends the demo and removes all of it")
    program = shlex.quote(os.path.join(os.path.dirname(sys.executable), "stayer"))
    stage.say(
        "On another machine? Forward the port first: ssh -L PORT:localhost:PORT this-machine\n"
        "In another terminal, on the same store:\n\n"
        f"  export STAYER_STORE={shlex.quote(stage.url)}\n"
        f"  alias stayer={program}\n"
        f"  stayer top                        # watch it\n"
        f"  stayer add -q {QUEUE} -- date          # a task of your own\n"
        f"  stayer explain {stage.id('encode-11')}         # why it waits, and for how long\n"
    )
    stage.serve()


class Stage:
    """A store, workers on two nodes, and the command line."""

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        self._folder = folder
        self._worker: subprocess.Popen[bytes] | None = None
        self._environment = {
            **os.environ,
            "STAYER_STORE": url,
            "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}",
        }
        self._client = stayer.Client(url)
        # On somebody's own store ids of an earlier demo are still there.
        self._suffix = "" if str(folder) in url else f"-{folder.name[-4:]}"

    def id(self, name: str) -> str:
        """The id of a task in this demo."""
        return name + self._suffix

    def task(self, id: str) -> stayer.TaskHandle[object]:
        return self._client.get_task(id)

    def done(self, id: str) -> float:
        """How far a task is."""
        progress = self.task(id).progress
        return (progress and progress.done) or 0

    def has_ended(self, id: str) -> bool:
        return self.task(id).finished_at is not None

    def log(self, id: str) -> str:
        """What the last attempt of a task has written, as far as the store has it."""
        command = self._command("log", id)
        return subprocess.check_output(command, env=self._environment, text=True)

    def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            time.sleep(0.05)

    def add(self, id: str, *command: str) -> None:
        """Submit a command as one does in a shell."""
        self.stayer("add", "-q", QUEUE, "--id", id, "--", *command)

    def enqueue(self, name: str, *command: str) -> None:
        """Submit a command without showing it."""
        self._client.get_queue(QUEUE).enqueue(id=self.id(name), command=command, cwd=str(HERE))

    def stayer(self, *words: str) -> None:
        """Show a command and what it prints."""
        print(f"\n$ stayer {shlex.join(words)}", flush=True)
        subprocess.run(self._command(*words), cwd=HERE, env=self._environment, check=True)

    def start_worker(self, node: str) -> None:
        """Start one on the node's state directory, the same each time."""
        words = ["worker", "-q", QUEUE, "--slots", "2", "--allow-commands", "--lease", "5s"]
        words += ["--node", node, "--state-dir", str(self._folder / node)]
        with open(self._folder / f"{node}.log", "ab") as log:
            self._worker = subprocess.Popen(
                self._command(*words), env=self._environment, stdout=log, stderr=log
            )

    def kill_worker(self) -> None:
        """End the worker as a crash would."""
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()

    def kill_node(self, node: str) -> None:
        """End all that runs on a node, as a power cut would."""
        self.kill_worker()
        while janitor.kill_all_in(str(self._folder / node)):
            time.sleep(0.05)

    def serve(self) -> None:
        """Serve the HTTP API and the page on any free port; prints the link to log in."""
        access = str(self._folder / "access.json")
        command = self._command("serve", "--port", "0", "--access-file", access)
        subprocess.run(command, env=self._environment, check=False)

    def close(self, own_store: bool) -> None:
        """Stop the worker, and its tasks with it; remove the queue from a store of somebody's."""
        if self._worker is not None:
            with suppress(ProcessLookupError):
                self._worker.send_signal(signal.SIGQUIT)
            self._worker.wait()
        if not own_store:
            drop = self._command("queues", "rm", QUEUE, "--yes", "--force")
            subprocess.run(drop, env=self._environment, check=False)
        self._client.close()

    def title(self, text: str) -> None:
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)

    def say(self, text: str) -> None:
        print(text, flush=True)

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "stayer", *words]


if __name__ == "__main__":
    main()
