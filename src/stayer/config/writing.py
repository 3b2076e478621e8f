"""Writing the settings in force as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stayer.config import DEFAULT, FILE, SETTINGS, Config, beside
from stayer.core.errors import BadConfig, Refused


def write(config: Config, path: Path, *, overwrite: bool = False) -> None:
    """Write what is not default as a configuration file that says what each line is for."""
    lines = ["# Settings of Stayer. The environment (STAYER_…) and flags go before them."]
    for name, setting in SETTINGS.items():
        if config.sources.get(name, DEFAULT) != DEFAULT:
            value = getattr(config, name)
            if name == "store":
                value = beside(Path.cwd() / FILE, value)  # here is not where the file will be
            lines += ["", f"# {setting.help}", f"{name} = {_toml(value)}"]
    for table, values in (("worker", config.worker), ("serve", config.serve)):
        if values:
            lines += ["", f"# What `stayer {table}` does unless its flags say otherwise."]
            lines += _toml_table(f"[{table}]", values)
    if config.retention:
        lines += [
            "",
            "# How many seconds after its end what is kept, unless its queue says otherwise.",
        ]
        lines += _toml_table("[retention]", config.retention)
    for name, settings in config.queues.items():
        lines += ["", "# What a queue lets run.", *_toml_table(f"[queues.{_toml(name)}]", settings)]
    if config.notices:
        lines += ["", "# How notices are delivered.", *_toml_table("[notices]", config.notices)]
    for name, hook in config.hooks.items():
        lines += ["", "# Who can be told.", *_toml_table(f"[hooks.{_toml(name)}]", hook)]
    for schedule in config.cron:
        lines += ["", "# A schedule.", *_toml_table("[[cron]]", schedule)]
    content = "\n".join(lines) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if overwrite:
            _replace(path, content)
        else:
            _create(path, content)
    except OSError as error:
        if isinstance(error, FileExistsError) and path.exists():
            raise Refused(f"{path} is there already: name another file, or force it") from None
        raise BadConfig(f"{path} can't be written: {error.strerror}") from None


def _replace(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        _create(temporary, content)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _create(path: Path, content: str) -> None:
    # The URL of a store may hold a password.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(content)


def _toml_table(head: str, values: Mapping[str, Any]) -> list[str]:
    return [head, *(f"{name} = {_toml(value)}" for name, value in values.items())]


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{_toml(name)} = {_toml(inner)}" for name, inner in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        from stayer.core import codec

        # A JSON string is a TOML string, but for DEL.
        return codec.encode(value).replace("\x7f", "\\u007f")
    return str(int(value)) if value == int(value) else str(value)
