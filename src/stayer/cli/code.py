"""`code`: what was installed for tasks on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import rich_click as click

from stayer.cli.command import Given, Group
from stayer.cli.common_options import json_option
from stayer.cli.output import note, plural, print_json_array, print_line, print_outcome
from stayer.cli.param_types import DURATION, SIZE
from stayer.config import Config
from stayer.core.errors import BadInput
from stayer.core.units import format_duration, format_size, rfc3339
from stayer.task.prepare import cache
from stayer.worker.task_code import CACHE_AGE_S, CACHE_BYTES, default_folder

_KEY_LENGTH = 12


@click.group(cls=Group)
def code() -> None:
    """List and remove code that was installed for tasks on this machine.

    It is about the folder of your own user's workers: code_dir of stayer.toml, --code-dir, or
    ~/.cache/stayer/code.
    """


def _folder(config: Config, given: str | None) -> str:
    chosen = given or config.worker.get("code_dir")
    folder = Path(str(chosen)) if chosen else default_folder()
    for path in (folder, folder / "envs"):
        try:
            owner = path.stat().st_uid
        except OSError:
            continue
        if owner != os.geteuid():
            # Tasks of that user can put links to anything in the place of what is removed.
            raise BadInput(f"{path} is that of another user: run this as user {owner}")
    return str(folder)


_code_dir = click.option("--code-dir", metavar="DIR", help="The folder that it is kept in.")


@code.command("ls")
@_code_dir
@click.option("--json", "as_json", is_flag=True, help="Print an array of environments, as JSON.")
@click.pass_obj
def list_environments(given: Given, code_dir: str | None, as_json: bool) -> None:
    """List the environments that are kept, the one used longest ago first."""
    folder = _folder(given.config(), code_dir)
    found = cache.list_kept(os.path.join(folder, "envs"))
    if as_json:
        print_json_array(
            {
                "environment": os.path.basename(each.path),
                "path": each.path,
                "used": rfc3339(each.used),
                "in_use": each.is_used(),
                **{name: each.about.get(name) for name in ("size", "python", "lock", "commit")},
                "git": each.about.get("git"),
                "requirements": each.about.get("requirements"),
            }
            for each in found
        )
        return
    if not found:
        note(f"no environments in {folder}: workers make them for tasks that ask for code")
    for each in found:
        key = os.path.basename(each.path)[:_KEY_LENGTH]
        ago = format_duration(max(0.0, time.time() - each.used))
        what = [str(each.about.get("git") or ""), *_requirements(each)]
        state = "in use" if each.is_used() else f"used {ago} ago"
        print_line(
            f"{key}  {format_size(each.size):>8}  {state}  {' '.join(filter(None, what))}".rstrip()
        )


def _requirements(kept: cache.Kept) -> list[str]:
    found = kept.about.get("requirements")
    return [str(line).partition(" ")[0] for line in found[:5]] if isinstance(found, list) else []


@code.command()
@_code_dir
@click.option(
    "--older", "--older-than", "older_than", type=DURATION, metavar="DURATION",
    help="Remove what was not used for this long. Default: 30d.",
)  # fmt: skip
@click.option(
    "--size", type=SIZE, metavar="SIZE",
    help="Then remove what was used longest ago, until this is left. Default: 20G.",
)  # fmt: skip
@json_option
@click.pass_obj
def prune(
    given: Given, code_dir: str | None, older_than: float | None, size: int | None, as_json: bool
) -> None:
    """Remove environments that were not used for long, or are too many; never one in use.

    Workers do the same whenever they have built one.
    """
    folder = os.path.join(_folder(given.config(), code_dir), "envs")
    removed = cache.evict(
        folder,
        CACHE_BYTES if size is None else size,
        CACHE_AGE_S if older_than is None else older_than,
    )
    freed = sum(each.size for each in removed)
    print_outcome(
        f"removed {plural(len(removed), 'environment')}, {format_size(freed)}",
        {"removed": [os.path.basename(each.path) for each in removed], "freed": freed},
        as_json,
    )
