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


def test_what_failed_is_gathered_by_fault(reader: Reader) -> None:
    listing, log, again = blocks("how-to/see-what-failed.md")
    reader.run("stayer init")
    (reader.folder / "get.sh").write_text("echo $1 is missing; exit $2\n")
    for id, said, code in (
        ("page-4", "page 4", 3),
        ("disk", "disk full", 1),
        ("page-9", "page 9", 3),
    ):
        reader.run(f"stayer add --id {id} -- sh get.sh '{said}' {code}")
    worker = reader.start("-m", "stayer", "worker", "--allow-commands")
    try:
        reader.run("stayer wait page-4 disk page-9", expected=1)
    finally:
        worker.terminate()
        worker.wait()
    [shown] = steps(listing)
    promised, found = shown.output.splitlines(), reader.run(shown.command).splitlines()
    assert [_but_times(line) for line in found] == [_but_times(line) for line in promised]
    reader.follow(log)
    reader.follow(again)


def _but_times(line: str) -> list[str]:
    words = line.split()
    return words[:2] + words[4:]
