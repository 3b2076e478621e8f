"""What the page about code from git and PyPI says works, with an index of the test's own."""

from __future__ import annotations

import json

import msgspec

import stayer
from stayer.core.submit.checks import new_task
from stayer.core.submit.json import parse_submission
from tests.code.conftest import GitRepository
from tests.code.index import Index
from tests.docs.pages import blocks, steps
from tests.docs.reader import Reader

PAGE = "how-to/run-code-from-git-and-pypi.md"
COW = "def get_output_string(animal, text):\n    return f'{animal}: {text}'\n"


def test_a_script_a_repository_and_a_function_run_as_the_page_says(reader: Reader) -> None:
    found = blocks(PAGE)
    [script] = [block for block in found if block.title == "train.py"]
    [first] = [block for block in found if "stayer run train.py" in block.code]
    [kept] = [block for block in found if "stayer code ls" in block.code]
    index = Index(reader.folder / "index")
    index.add("cowsay", "6.1", files={"cowsay.py": COW})
    repository = GitRepository(reader.folder / "models")
    commit = repository.commit(
        acme__training="def fit(epochs: int) -> int:\n    return epochs * 2\n"
    )
    reader.follow(script)
    reader.run("stayer init")
    worker = reader.start(
        "-m", "stayer", "worker", "--allow-commands", "--allow-code", "*",
        "--allow-code", f"{repository.url}*", "--code-dir", str(reader.folder / "code"),
        "--code-env", f"UV_DEFAULT_INDEX={index.url}", "--code-env", "UV_COMPILE_BYTECODE=0",
    )  # fmt: skip
    try:
        [step] = steps(first)
        assert reader.run(step.command).endswith("cow: trained\n")
        assert reader.run(step.command) == "cow: trained\n"
        reader.run(
            f"stayer add --id fit --git {repository.url} --name acme.training:fit "
            """--data '{"epochs": 30}'"""
        )
        reader.run("stayer wait fit")
        shown = json.loads(reader.run("stayer show --json fit"))
        assert (shown["result"], shown["pinned"]["commit"]) == (60, commit)
        listed, prune = steps(kept)
        assert len(reader.run(f"{listed.command} --code-dir code").splitlines()) == 2
        assert reader.run(f"{prune.command} --code-dir code").startswith("removed 0")
    finally:
        worker.terminate()
        worker.wait()


def test_what_is_written_in_json_and_in_python_is_the_same() -> None:
    files, *written = [block for block in blocks(PAGE) if block.language == "json"]
    sent, *python = [block for block in blocks(PAGE) if "queue.submit" in block.code]
    meant = stayer.Code(("numpy>=2", "pandas"), "3.12"), stayer.Code(image="python:3.12")

    for code, in_json, in_python in zip(meant, written, python, strict=True):
        asked = new_task(queue="q", **parse_submission(in_json.code, "the page"))
        assert asked.code == code
        made = eval(in_python.code.partition("code=")[2].rstrip()[:-1], {"stayer": stayer})
        assert new_task(queue="q", command=("true",), code=made).code == code
        assert msgspec.to_builtins(asked.code)
    whole = files.code.replace("9f86d0…", "0" * 64)
    with_files = new_task(queue="q", **parse_submission(whole, "the page")).code
    assert with_files == stayer.Code(files=(stayer.SentFile("train.py", "0" * 64, 412),))
    compile(sent.code, "the page", "exec")


def test_the_settings_of_the_page_are_read(reader: Reader) -> None:
    [settings] = [block for block in blocks(PAGE) if block.title == "stayer.toml"]
    (reader.folder / "stayer.toml").write_text(settings.code)

    shown = reader.run("stayer config --json")

    assert "allow_code" in shown
    assert "UV_DEFAULT_INDEX=***" in shown
    assert "secret" not in shown
