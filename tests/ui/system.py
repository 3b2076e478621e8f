"""A live system for the page: tasks that go on when they are told."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stayer.core.model import Task
from tests.faults.fleet import Fleet
from tests.http.serving import Process, Site, make_access

_STEPPED = """
folder=$1
n=1
while true; do
    while [ ! -e $folder/$n ]; do sleep 0.05; done
    if [ -e $folder/end-$n ]; then break; fi
    sh $folder/$n
    n=$((n + 1))
done
echo '{"steps": '$n'}' > $STAYER_RESULT
"""


class System:
    """Everything that runs, and ways to make it do something."""

    def __init__(self, fleet: Fleet, server: Process, site: Site, folder: Path) -> None:
        self.fleet = fleet
        self.site = site
        self.folder = folder
        self._server = server
        self._steps: dict[str, int] = {}

    @property
    def url(self) -> str:
        return self.site.url

    def submit(self, **fields: Any) -> str:
        """By the API, as a program would."""
        answer = self.site("POST", "/v1/tasks", fields, role="submit")
        assert answer.status == 201, answer
        id: str = answer.json["id"]
        return id

    def stepped(self, id: str) -> str:
        """A task that does what `step` tells it."""
        (self.folder / f"steps-{id}").mkdir()
        place = str(self.folder / f"steps-{id}")
        return self.submit(id=id, queue="default", command=["sh", "-c", _STEPPED, "steps", place])

    def step(self, id: str, script: str) -> None:
        """Let it run this piece of shell."""
        self._steps[id] = self._steps.get(id, 0) + 1
        file = self.folder / f"steps-{id}" / str(self._steps[id])
        fresh = file.with_suffix(".tmp")
        fresh.write_text(script)
        fresh.rename(file)

    def finish(self, id: str) -> None:
        """Let it come to its end."""
        (self.folder / f"steps-{id}" / f"end-{self._steps.get(id, 0) + 1}").touch()
        self.step(id, "")

    def until(self, id: str, *states: str) -> Task:
        return self.fleet.until_state(id, *states)

    def stop_server(self) -> None:
        self._server.stop()

    @contextmanager
    def server_stopped(self) -> Iterator[None]:
        """It takes requests, and answers none."""
        self._server.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._server.process.send_signal(signal.SIGCONT)

    def start_server(self) -> None:
        """On the same port, as a restart would."""
        self._server = Process(self.folder, self.fleet.url, port=self._server.port)

    def close(self) -> None:
        self.fleet.close()
        self._server.stop()


@contextmanager
def live_system(folder: Path, slots: int = 4) -> Iterator[System]:
    """A store, a server and, unless it has no slots, a worker, all real."""
    access, tokens = make_access(folder)
    fleet = Fleet(folder)
    server = Process(folder, fleet.url)
    system = System(fleet, server, Site(server.url, access, tokens), folder)
    try:
        if slots:
            fleet.worker("one", slots=slots)
        yield system
    finally:
        system.close()
