"""Preparing the code of a task: the first thing that its process does, before it becomes the task.

`python -I -S …/task/prepare/__main__.py` is started by a keeper, like any task, so its limits, its
fence, its log and its end are those of the attempt. It knows no store and needs only the standard
library. It reads `code.json` of the task's folder, talks to the worker through files there (see
`docs/reference/run-directory.md`), and ends by executing the program of the task in the environment
that it has found or built.
"""
