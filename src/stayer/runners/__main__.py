"""`python -m stayer.runners …` is `python -m stayer.task …`."""

import runpy

runpy.run_module("stayer.task", run_name="__main__", alter_sys=True)
