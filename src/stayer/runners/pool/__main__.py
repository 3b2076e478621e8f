"""`python -m stayer.runners.pool …` is `python -m stayer.worker.threads …`."""

import runpy

runpy.run_module("stayer.worker.threads", run_name="__main__", alter_sys=True)
