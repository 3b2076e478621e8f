"""Training on GPUs, as the page says: each task sees the GPU of its worker, and no other."""

from __future__ import annotations

import json
import os
import signal

from tests.docs.pages import blocks
from tests.docs.reader import Reader
from tests.docs.test_snippets import until

PAGE = "how-to/train-on-gpus.md"
LAUNCH = "import os; os.execvp('sh', ['sh', 'gpus.sh'])"


def test_a_sweep_runs_on_all_gpus_one_a_task(reader: Reader) -> None:
    workers, script, sweep, *_ = blocks(PAGE)
    reader.follow(workers)
    reader.follow(script)
    smi = reader.folder / "programs" / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 0\necho 1\n")
    smi.chmod(0o755)
    reader.run("stayer init")
    launched = reader.start("-c", LAUNCH)
    try:
        until(lambda: len(json.loads(reader.run("stayer workers --json"))) == 2)
        reader.follow(sweep)
        shown = json.loads(reader.run("stayer sweep show lr-1 --sort loss --json"))
        assert [run["parameters"]["lr"] for run in shown["runs"]] == [0.4, 0.2, 0.1]
        for run in shown["runs"]:
            record = json.loads(reader.run(f"stayer show {run['id']} --json"))
            gpu = record["attempts"][0]["node"][-1]
            assert reader.run(f"stayer log {run['id']}").count(f"on GPU {gpu}") == 5
    finally:
        for worker in json.loads(reader.run("stayer workers --json")):
            os.kill(worker["pid"], signal.SIGQUIT)
        launched.wait(60)
