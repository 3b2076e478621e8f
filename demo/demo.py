"""`make demo`: tasks that report, a worker that is killed while they run; then the web page."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import stayer

FILM = """
for frame in $(seq 1 40); do
    echo "frame $frame"
    echo "$frame/40 frames" >> $STAYER_REPORT
    sleep 0.1
done
echo '{"frames": 40}' > $STAYER_RESULT
"""


def main() -> None:
    """Play it in a folder of its own, and leave nothing behind."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/stayer.db"
        stage = Stage(Path(folder), url)
        try:
            with stayer.Client(url) as client:
                play(client, stage)
        finally:
            stage.close()


def play(client: stayer.Client, stage: Stage) -> None:
    """The scenes."""
    queue = client.get_queue("films")
    title("Three commands, one of them twice: an id is accepted once")
    for id in ("film-1", "film-2", "film-3", "film-1"):
        print(" ", queue.enqueue(id=id, command=["sh", "-c", FILM], owner="demo"))

    title("A worker with two slots takes them")
    stage.start_worker()
    while not all(client.get_task(id).progress for id in ("film-1", "film-2")):
        time.sleep(0.05)
    stage.show("ls")

    title("It is killed, with no warning; the tasks run on, and the next worker adopts them")
    stage.kill_worker()
    stage.start_worker()
    for id in ("film-1", "film-2", "film-3"):
        print(f"  {id}: {client.get_task(id).wait()}")
    stage.show("ls")

    title("The account of one of them: one attempt, in spite of all")
    stage.show("show", "film-1")
    print(f"\nTry it yourself: {os.path.dirname(sys.executable)}/stayer --help")
    if sys.stdout.isatty() or "--page" in sys.argv:
        show_page(queue, stage)


def show_page(queue: stayer.Queue, stage: Stage) -> None:
    """The same in a browser, until somebody has seen enough."""
    title("The web page, with more to look at: open the link; Ctrl-C ends it")
    for number in range(4, 16):
        film = FILM.replace("40", str(200 * number)).replace("0.1", "0.25")
        if number % 5 == 0:
            film += "echo 'the last reel is missing' >&2; exit 3"
        queue.enqueue(id=f"film-{number}", command=["sh", "-c", film], owner="demo")
    with suppress(KeyboardInterrupt):
        stage.serve()


class Stage:
    """A store, a worker, and the command line."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._worker: subprocess.Popen[bytes] | None = None

    def start_worker(self) -> None:
        """On the same state directory each time."""
        state = str(self._folder / "worker")
        words = ["worker", "-q", "films", "--slots", "2", "--allow-commands", "--state-dir", state]
        with open(self._folder / "worker.log", "ab") as log:
            command = [*self._command(), *words, "--lease", "5s"]
            self._worker = subprocess.Popen(command, stdout=log, stderr=log)

    def kill_worker(self) -> None:
        """As a crash would."""
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()

    def show(self, *words: str) -> None:
        """What the command line says."""
        print(f"\n$ stayer {' '.join(words)}", flush=True)
        subprocess.run([*self._command(), *words], check=True)

    def serve(self) -> None:
        """The HTTP API and the page, on any port that is free; prints the link to log in."""
        access = str(self._folder / "access.json")
        subprocess.run(
            [*self._command(), "serve", "--port", "0", "--access-file", access], check=False
        )

    def close(self) -> None:
        """Let the worker take its leave, and its tasks with it."""
        if self._worker is not None:
            with suppress(ProcessLookupError):
                self._worker.send_signal(signal.SIGQUIT)
            self._worker.wait()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "stayer", "--store", self._url]


def title(text: str) -> None:
    """A heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


if __name__ == "__main__":
    main()
