"""What the page about retries says works."""

from __future__ import annotations

from tests.docs.pages import blocks, steps
from tests.docs.reader import Reader


def test_a_retry_goes_on_or_begins_from_the_start(reader: Reader) -> None:
    found = blocks("how-to/retry-what-failed.md")
    [script] = [block for block in found if block.title == "count.sh"]
    [console] = [block for block in found if "--from-start" in block.code]
    reader.follow(script)
    reader.run("stayer init")
    worker = reader.start("-m", "stayer", "worker", "--allow-commands")
    try:
        for step in steps(console):
            if step.command.startswith("stayer log"):
                reader.run("stayer wait count", expected=1)
            assert reader.run(step.command) == step.output
    finally:
        worker.terminate()
        worker.wait()
