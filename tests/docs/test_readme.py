"""README: what a stranger tries first."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.docs.pages import Block, blocks, steps, text
from tests.docs.reader import Reader

README = "../README.md"


def test_it_stays_short() -> None:
    assert len(text(README).splitlines()) <= 140


def test_its_pictures_are_there() -> None:
    from tests.ui.pictures import PICTURES, SCHEMES

    for scheme in SCHEMES:
        picture = PICTURES / f"now-{scheme}.png"
        assert f"docs/pictures/{picture.name}" in text(README)
        assert picture.stat().st_size < 200_000


@pytest.mark.skipif(sys.platform != "linux", reason="workers run on Linux")
def test_its_commands_and_examples_work(reader: Reader) -> None:
    [console] = [block for block in blocks(README) if block.language == "console"]
    typed = [step.command for step in steps(console)]
    install, up, *commands = (command.partition(" #")[0].rstrip() for command in typed)
    assert (install, up) == ("pip install '.[web,code]'", "stayer up")
    for block in blocks(README):
        if block.title:
            reader.follow(block)
    # What it would take an hour to encode.
    shutil.copy(reader.folder / "encode.sh", reader.folder / "a.mov")
    commands = [command.replace("ffmpeg -i a.mov a.mp4", "sh a.mov") for command in commands]
    up = "stayer worker --allow-commands --app jobs"  # as `up`, and for the functions
    reader.follow(Block("console", "second terminal", f"$ {up}\n"))
    printed = [reader.run(command) for command in commands]
    assert printed[0] == "film-1\n"
    reader.run("stayer add --id train -- python3 train.py && stayer wait train")
    assert '"loss":' in reader.run("stayer show train")
    reader.run("python3 train.py")  # by hand
    assert reader.run("python3 jobs.py").strip() == str(
        len((reader.folder / "jobs.py").read_text().splitlines())
    )
