"""Finding out at submission what the code of a task means, instead of at its first attempt.

With the uv and git of the submitter's machine, with his settings and rights: source packages may
run code to say what they need. So this is for clients that ask for it, never for a server.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

import msgspec

from stayer.core import code as rules
from stayer.core.errors import BadConfig, BadInput
from stayer.core.extras import how_to_install
from stayer.core.model import Code
from stayer.task.prepare.attempt import for_programs
from stayer.task.prepare.build import Builder
from stayer.task.prepare.programs import Programs, Unprepared, find_uv

_TIME_LIMIT_S = 600.0
_STDERR = 2


def resolve_code(code: Code) -> Code:
    """Return it with exact versions, hashes and a commit. What uv and git print goes to stderr."""
    asked = rules.check("code", code)
    if asked is None or not rules.installs(asked):
        return code
    lines = rules.lines_of(asked.requirements)
    git = rules.repository(asked.git) if asked.git else None
    uv, git_program = find_uv(), shutil.which("git")
    if uv is None or (git is not None and git_program is None):
        missing = f"uv ({how_to_install('code')})" if uv is None else "git"
        raise BadConfig(f"to resolve it here takes {missing}: install it, or leave --resolve out")
    with tempfile.TemporaryDirectory(prefix="stayer-resolve-") as folder:
        spec = {
            "requirements": list(lines),
            "is_lock": rules.is_lock(lines),
            "python": asked.python,
            "git": git and msgspec.structs.asdict(git),
            "allow": ["*"],
            "uv": uv,
            "git_program": git_program,
            "own_python": getattr(sys, "_base_executable", sys.executable),
            "folder": folder,
        }
        variables = for_programs(spec, {"UV_CACHE_DIR": _uv_cache()})
        programs = Programs(variables, _TIME_LIMIT_S, output=_STDERR)
        try:
            found = Builder(spec, programs).resolve()
        except Unprepared as error:
            raise BadInput(f"the code of the task can't be resolved: {error}") from None
    where = None
    if git is not None:
        where = f"{git.url}@{found['commit']}" + (f"#{git.folder}" if git.folder else "")
    return Code(rules.lines_of(found["text"] or ""), found["python"], where, asked.files)


def _uv_cache() -> str:
    return os.environ.get("UV_CACHE_DIR") or os.path.expanduser("~/.cache/uv")
