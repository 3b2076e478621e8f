"""A day in the life of a small fleet, played into a store in a moment: history for every chart.

`python -m tests.ui.scene FOLDER` serves it, to be looked at.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
import time
from collections.abc import Callable
from pathlib import Path

from stayer.core.flows.model import NewFlow, Part
from stayer.core.happenings import Done, Fail, Interrupt, Start
from stayer.core.lifecycle import decide
from stayer.core.model import Fault, LogPiece, NewTask, Policy, Progress, Report, Task, Usage
from stayer.core.schedules import parse
from stayer.core.schedules.model import Schedule
from stayer.core.worker_model import EVERYTHING, Worker
from stayer.stores.sql.sqlite import open_store

_HOURS = 9.0
_REPORTS = 31
_GB = 10**9
_KINDS = {
    # queue, name, usual seconds, memory, processors, saves checkpoints, fails how often
    "train-resnet": ("training", 9000, 11 * _GB, 3.6, True, 0.04),
    "fine-tune": ("training", 5400, 22 * _GB, 1.2, True, 0.08),
    "encode-4k": ("encode", 1500, 3 * _GB, 3.9, False, 0.05),
    "nightly-etl": ("etl", 700, _GB, 0.8, False, 0.12),
    "crawl-site": ("crawl", 400, _GB // 3, 0.3, True, 0.16),
}
_FAULTS = {
    "train-resnet": Fault("RuntimeError", "CUDA error: an illegal memory access was encountered"),
    "fine-tune": Fault("OutOfMemory", "its processes used 24 GB, the limit is 24 GB"),
    "encode-4k": Fault("ExitCode", "exit code 187", exit_code=187),
    "nightly-etl": Fault(
        "OperationalError", "could not connect to server: Connection refused (10.0.4.17:5432)"
    ),
    "crawl-site": Fault("TimeoutError", "GET https://example.org/page/4711 timed out after 30 s"),
}
_TRACEBACK = """Traceback (most recent call last):
  File "/srv/jobs/pipeline.py", line 88, in run
    for batch in self.batches(parameters["source"]):
  File "/srv/jobs/pipeline.py", line 132, in batches
    connection = self.connect(retries=3)
  File "/srv/jobs/database.py", line 41, in connect
    raise OperationalError(message)
"""
_FLEET = (
    ("gpu-1", 2, ("training",)),
    ("gpu-2", 2, ("training", "encode")),
    ("cpu-1", 4, ("etl", "crawl", "encode")),
    ("cpu-2", 3, ("crawl", "encode")),
)


class Scene:
    """A store whose clock runs through hours in a moment."""

    def __init__(self, folder: Path, seed: int = 4) -> None:
        self.url = f"sqlite:///{folder}/stayer.db"
        self.end = time.time()
        self.now = self.end - _HOURS * 3600
        self.store = open_store(self.url, lambda: self.now)
        self.store.setup()
        self._chance = random.Random(seed)
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count(1)
        self._beats: dict[str, int] = {}
        self._offsets: dict[str, int] = {}
        self.workers = [
            Worker(
                id=f"{node}.812.1731700000.{n:03}", node=node, pid=812 + n, queues=queues,
                slots=slots, version="0.1.0", lease=7200.0,
            )
            for n, (node, slots, queues) in enumerate(_FLEET)
        ]  # fmt: skip
        self._busy = dict.fromkeys((worker.id for worker in self.workers), 0)

    def play(self) -> None:
        """Until now."""
        for worker in self.workers:
            self._at(self.now, lambda worker=worker: self._look(worker))  # type: ignore[misc]
        for kind in _KINDS:
            self._at(self.now, lambda kind=kind: self._arrive(kind))  # type: ignore[misc]
        while self._agenda and self._agenda[0][0] < self.end:
            self.now, _, step = heapq.heappop(self._agenda)
            step()
        self.now = self.end
        for name, cron, zone in (
            ("nightly-etl", "30 2 * * *", "Europe/Berlin"),
            ("crawl-again", "*/15 * * * *", "UTC"),
        ):
            wanted = Schedule(name=name, cron=cron, zone=zone, task=self.new(name, "nightly"))
            self.store.put_schedule(parse.check_schedule(wanted, self.now))
        self.store.set_queue("nightly", paused=True)
        self.store.submit([self.new("nightly-etl", "nightly") for _ in range(3)])
        self._flow()
        for worker in self.workers:
            self._beat(worker)
        gone = Worker(
            id="old-box.77.1731690000.001", node="old-box", pid=77, queues=("archive",), slots=2,
            version="0.0.9", lease=60.0,
        )  # fmt: skip
        self.now = self.end - 760
        self._beat(gone)
        self.now = self.end

    def _flow(self) -> None:
        """One that is half done, in a queue that nobody listens to."""
        parts = {"list": (), "clean": ("list",), "train": ("clean",), "report": ("train", "list")}
        after = {part: tuple(f"weekly.{each}" for each in of) for part, of in parts.items()}
        flow = NewFlow(
            id="weekly", name="weekly report", owner="ada",
            parts=tuple(Part(name=name, queue="flows", after=of) for name, of in parts.items()),
        )  # fmt: skip
        self.store.submit_flow(
            flow,
            [
                NewTask(id=f"weekly.{part}", queue="flows", flow="weekly", part=part, after=of)
                for part, of in after.items()
            ],
        )
        [first] = self.store.reserve(self.workers[0].id, ["flows"], 1, EVERYTHING)
        self.store.commit([decide(first, Done())])

    def _at(self, moment: float, step: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (moment, next(self._numbers), step))

    def _beat(self, worker: Worker, *reports: Report) -> None:
        number = self._beats[worker.id] = self._beats.get(worker.id, 0) + 1
        self.store.beat(worker, number, str(number), reports)

    def new(self, kind: str, queue: str | None = None) -> NewTask:
        """A task of one of the kinds."""
        number = next(self._numbers)
        return NewTask(
            id=f"{kind.partition('-')[0]}-{number:05}", queue=queue or _KINDS[kind][0], name=kind,
            parameters={"source": f"s3://lab/{kind}/{number}", "batch": 256, "seed": number},
            owner=self._chance.choice(["ada", "grace", "edsger"]),
            tags=("nightly",) if kind == "nightly-etl" else (),
            policy=Policy(time_limit=8 * 3600.0 if kind == "train-resnet" else None),
        )  # fmt: skip

    def _arrive(self, kind: str) -> None:
        self.store.submit([self.new(kind)])
        usual = _KINDS[kind][1]
        self._at(self.now + self._chance.expovariate(1.9 / usual), lambda: self._arrive(kind))

    def _look(self, worker: Worker) -> None:
        """Take what there is for free slots."""
        self._beat(worker)
        self.store.sample()
        free = worker.slots - self._busy[worker.id]
        if free:
            for task in self.store.reserve(worker.id, worker.queues, free, EVERYTHING):
                self._busy[worker.id] += 1
                self._at(
                    self.now + 1.4,
                    lambda task=task: self._start(worker, task),  # type: ignore[misc]
                )
        self._at(self.now + 45, lambda: self._look(worker))

    def _start(self, worker: Worker, task: Task) -> None:
        [started] = self.store.commit([decide(task, Start(pid=4000 + next(self._numbers) % 999))])
        assert started is not None
        usual = _KINDS[started.name or ""][1]
        length = usual * self._chance.lognormvariate(0, 0.22)
        if started.name == "encode-4k" and 3000 < self.end - self.now < 6000:
            length *= 4  # takes far too long
        begun = self.now
        for n in range(1, _REPORTS):
            moment = begun + length * n / _REPORTS
            self._at(moment, lambda n=n: self._report(worker, started, begun, length, n))  # type: ignore[misc]
        self._at(begun + length, lambda: self._finish(worker, started, begun, length))

    def _report(self, worker: Worker, task: Task, begun: float, length: float, n: int) -> None:
        kind = task.name or ""
        _, _, memory, processors, saves, _ = _KINDS[kind]
        ran = self.now - begun
        if kind == "encode-4k" and length > 3000 and ran > 2400:
            return  # has gone silent
        wave = 0.75 + 0.25 * math.sin(n / 4) + self._chance.uniform(-0.05, 0.05)
        epochs = {"train-resnet": 90, "fine-tune": 12}.get(kind)
        if epochs:
            done, total = round(epochs * n / _REPORTS, 1), epochs
            said = f"epoch {int(done)}, loss {2.4 * math.exp(-n / 12) + 0.31:.3f}"
        else:
            done, total = n * 100, _REPORTS * 100
            said = {"encode-4k": f"frame {n * 1480:,}", "crawl-site": f"{n * 37} pages"}.get(
                kind, ""
            )
        line = f"\x1b[2m{time.strftime('%H:%M:%S', time.gmtime(self.now))}\x1b[0m "
        line += f"\x1b[32mINFO\x1b[0m {said or 'batch'} {done:g}/{total}\n"
        if n % 9 == 0:
            line += "\x1b[33mWARNING\x1b[0m retrying a slow shard\n"
        usage = Usage(
            ran=ran, cpu=processors * (ran * 0.8 + length / _REPORTS * math.sin(n / 3)),
            rss=int(memory * wave * min(1, 0.4 + n / 20)), peak=int(memory * 1.02),
            read=int(ran * 4.1e7 + 9e8 * math.sin(n / 3)), written=int(ran * 6e6),
            processes=2 + int(processors),
        )  # fmt: skip
        report = Report(
            id=task.id, attempt=task.attempt, usage=usage,
            progress=Progress(done=done, total=total, message=said, remaining=length - ran),
            checkpoint=b"weights" * 40 if saves and n % 6 == 0 else None,
            log=(LogPiece(self._offsets.get(task.id, 0), line.encode()),),
        )  # fmt: skip
        self._offsets[task.id] = self._offsets.get(task.id, 0) + len(line.encode())
        self._beat(worker, report)

    def _finish(self, worker: Worker, task: Task, begun: float, length: float) -> None:
        current = self.store.get([task.id])[0]
        self._busy[worker.id] -= 1
        if current is None or current.attempt != task.attempt or current.worker != worker.id:
            return
        kind = task.name or ""
        chance = self._chance.random()
        if chance < _KINDS[kind][5]:
            fault = _FAULTS[kind]
            text = f"{_TRACEBACK}{fault.type}: {fault.message}\n"
            outcome: Fail | Interrupt | Done = Fail(
                Fault(fault.type, fault.message, text, fault.exit_code, fault.signal)
            )
        elif chance > 0.96:
            outcome = Interrupt()
        else:
            outcome = Done({"accuracy": 0.913, "batches": 6100, "seconds": round(length)})
        self.store.commit([decide(current, outcome)])


def main() -> None:
    """Serve a scene until it is interrupted."""
    import sys

    from tests.http.serving import Process

    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    scene = Scene(folder)
    scene.play()
    scene.store.close()
    server = Process(folder, scene.url, port=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(server.link, flush=True)
    server.process.wait()


if __name__ == "__main__":
    main()
