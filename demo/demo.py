"""`make demo`: a producer and two listeners in processes of their own, one of which is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile

import stayer

LISTENER = """
import sys
import stayer

client = stayer.Client(sys.argv[1])
with client.get_listener("films", lease=2) as listener:
    for task in listener:
        with client.get_processor(task) as processor:
            print(f"  {sys.argv[2]} has taken {task.id}, attempt {task.attempt}", flush=True)
            if sys.argv[2] == "doomed":
                sys.stdin.read()  # holds its task for ever
            for frame in range(100):
                processor.progress(frame + 1, 100)
            processor.complete({"frames": 100})
"""


def main() -> None:
    """Submit, take, die, take over, finish, list."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/stayer.db"
        with stayer.Client(url) as client:
            play(client, url)


def play(client: stayer.Client, url: str) -> None:
    """The scenes."""
    queue = client.get_queue("films")
    title("Three tasks, one of them twice: an id is accepted once")
    for id in ("film-1", "film-2", "film-3", "film-1"):
        print(" ", queue.enqueue({"file": f"{id}.mov"}, id=id, owner="demo"))
    show(url, "ls")

    title("A listener takes one and is killed in the middle of it")
    doomed = listen(url, "doomed", stdout=subprocess.PIPE)
    assert doomed.stdout is not None
    print(doomed.stdout.readline().decode(), end="")
    doomed.send_signal(signal.SIGKILL)
    doomed.communicate()
    show(url, "workers")

    title("Another one does the rest; the dead one's task comes back once its lease is over (2 s)")
    heir = listen(url, "heir")
    for id in ("film-1", "film-2", "film-3"):
        client.get_task(id).wait()
    heir.terminate()
    heir.wait()
    show(url, "ls")

    title("The account of the task that changed hands")
    show(url, "show", "film-1")
    print(f"\nTry it yourself: {os.path.dirname(sys.executable)}/stayer --help")


def listen(url: str, name: str, **options: int) -> subprocess.Popen[bytes]:
    """A listener in a process of its own."""
    command = [sys.executable, "-c", LISTENER, url, name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


def show(url: str, *words: str) -> None:
    """What the command line says."""
    print(f"\n$ stayer {' '.join(words)}", flush=True)
    subprocess.run([sys.executable, "-m", "stayer", "--store", url, *words], check=True)


def title(text: str) -> None:
    """A heading."""
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


if __name__ == "__main__":
    main()
