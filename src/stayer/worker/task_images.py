"""`--allow-image`: in which container images this worker runs commands, and by what.

As with code, the process of the task gets the image and then becomes what runs it
(`stayer.task.prepare.images`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from stayer.core import images
from stayer.core.errors import BadConfig, BadInput
from stayer.core.model import Task
from stayer.worker.allowed_programs import NotAllowed
from stayer.worker.task_code import PREPARE, TIME_LIMIT_S
from stayer.worker.task_user import TaskUser

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_.-]+")
_NAME_CHARACTERS = 40
_GPUS = "CUDA_VISIBLE_DEVICES"
_NVIDIA = "/dev/nvidiactl"
"""Where there is a GPU of theirs."""


class ImageRules(Struct, frozen=True, kw_only=True):
    """Which images may be run, and how."""

    allowed: tuple[str, ...]
    podman: str
    variables: dict[str, str] = {}
    """For podman alone: credentials, settings."""
    time_limit: float = TIME_LIMIT_S

    def check(self, task: Task) -> None:
        """Raise NotAllowed if no pattern names the image of the task, or if it is none."""
        assert task.code is not None
        try:
            image = images.check_image(task.code.image or "")
        except BadInput as error:
            raise NotAllowed(f"its image can't be read: {error}") from None
        if not task.command:
            raise NotAllowed("its image goes with a command, and it has none")
        if not images.is_allowed(image, self.allowed):
            raise NotAllowed(f"no --allow-image names {image}")
        pinned = None if task.pinned is None else task.pinned.image
        if pinned and not images.is_digest(pinned):
            raise NotAllowed("the digest that its image is pinned to can't be read")

    def folder_of(self, user: TaskUser | None) -> Path:
        """Return where podman is run: it knows itself where its images are."""
        return Path("/")

    def process(self, task: Task) -> dict[str, Any]:
        """Return what its keeper is to execute, and what that prepares."""
        assert task.code is not None
        assert task.code.image is not None
        image = task.code.image
        pinned = task.pinned if task.pinned is not None and task.pinned.image else None
        if pinned is not None and (digest := images.digest_of(image)) is not None:
            pinned = msgspec.structs.replace(pinned, image=digest)  # the store has no say in it
        about = {
            "image": image,
            "full_name": images.full_name(image),
            "repository": images.repository_of(image),
            "digest": images.digest_of(image),
            "is_local": images.full_name(image).startswith(images.LOCAL),
            "pinned": (pinned and not pinned.anew and msgspec.structs.asdict(pinned)) or None,
            "podman": self.podman,
            "time_limit": self.time_limit,
            "argv": task.command,
            "cwd": task.cwd,
        }
        words = [sys.executable, "-I", "-S", PREPARE]
        return {"argv": words, "program": sys.executable, "cwd": "/", "code": about}

    def removal(self, container: str) -> list[str]:
        """Return what removes whatever is left of a container whose processes are gone."""
        return [self.podman, "rm", "--force", "--ignore", "--time", "0", container]


def container_name(task: Task, folder: Path) -> str:
    """Return the name of the container of an attempt: to be recognized, and nobody else's."""
    readable = _NOT_IN_A_NAME.sub("-", task.id)[:_NAME_CHARACTERS]
    own = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return f"stayer-{readable}-{task.attempt}-{own}"


def in_container(
    variables: Mapping[str, str], outside: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return what of these variables a task has in a container, and the devices that are the GPUs
    which a process with those of `outside` would see. In the container they are numbered from 0.
    """
    chosen = outside.get(_GPUS)
    if chosen is None:
        devices = ["nvidia.com/gpu=all"] if os.path.exists(_NVIDIA) else []
    else:
        devices = [f"nvidia.com/gpu={each.strip()}" for each in chosen.split(",") if each.strip()]
    return {name: value for name, value in variables.items() if name != _GPUS}, devices


def image_rules(
    *, allow: tuple[str, ...], variables: dict[str, str], limits: Mapping[str, float], path: str
) -> ImageRules | None:
    """Build the rules from flags; None if no image is to be run. Raises BadConfig."""
    if not allow:
        return None
    podman = variables.get("PODMAN") or find_podman(path)
    if podman is None:
        raise BadConfig(
            "--allow-image needs podman: install it, or put it into the PATH. Docker is not used: "
            "containers of its daemon are no processes of the task, and could not be fenced"
        )
    time_limit = {"time_limit": limits["time_limit"]} if "time_limit" in limits else {}
    return ImageRules(allowed=allow, podman=podman, variables=variables, **time_limit)


def find_podman(path: str | None = None) -> str | None:
    """Find it in the PATH."""
    return shutil.which("podman", path=path)
