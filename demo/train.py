"""Pretends to train a model. Goes on from its checkpoint if an earlier attempt left one."""

import sys
import time

import stayer

task = stayer.current_task()
assert task is not None, "run it with: stayer add -- python train.py 20"
epochs = int(sys.argv[1])
state = task.restore({"epoch": 0, "loss": 1.0})
print(f"attempt {task.attempt} begins at epoch {state['epoch'] + 1}")
while state["epoch"] < epochs:
    time.sleep(0.5)  # the hard work
    state = {"epoch": state["epoch"] + 1, "loss": state["loss"] * 0.9}
    print(f"epoch {state['epoch']}: loss {state['loss']:.3f}")
    task.checkpoint(state)
    task.progress(state["epoch"], epochs, f"loss {state['loss']:.3f}")
task.set_result({"loss": round(state["loss"], 3)})
