"""The image that a command is to run in: had and pinned by podman, then run by it.

podman has no daemon: the container and what watches it are children of this process, which becomes
`podman run`. So a keeper freezes, measures, kills and outlives them like those of any other task.
"""

from __future__ import annotations

import os
import subprocess

from .attempt import Conversation, Program
from .build import Spec
from .programs import Programs, Unprepared

_TELL = "{{.Digest}}{{range .RepoDigests}} {{.}}{{end}}"
_VARIABLES_FILE = "variables"
_MISSING = 1
"""The exit code of `podman image exists` that says no."""


def prepare_image(spec: Spec, worker: Conversation) -> tuple[str, Program]:
    """Get and pin the image; return its digest, and what runs it."""
    images = _Images(spec)
    pinned = spec.get("pinned")
    if pinned is None:
        worker.preparing(f"looks for image {spec['image']}")
        pinned = worker.agree({"image": spec.get("digest") or images.resolve()})
    digest: str = pinned["image"]
    reference = f"{spec['repository']}@{digest}"
    if not images.exists(reference):
        worker.preparing(f"pulls image {spec['image']}")
        images.pull(reference)
    return digest, Program(_words(spec, reference), spec["podman"], "/", dict(os.environ))


class _Images:
    """Those of this user on this machine."""

    def __init__(self, spec: Spec) -> None:
        self._podman: str = spec["podman"]
        self._name: str = spec["full_name"]
        self._is_local: bool = spec["is_local"]
        self._repository: str = spec["repository"]
        self._programs = Programs(os.environ, spec["time_limit"])

    def resolve(self) -> str:
        """Return the digest of what the name stands for now."""
        try:
            self.pull(self._name)
        except Unprepared as error:
            if not self.exists(self._name):
                raise
            if not self._is_local:
                self._programs.say(f"stayer: the one that is here is used: {error}\n")
        return self._digest()

    def pull(self, reference: str) -> None:
        """Get it from its registry. The name can stand for nothing else by what is before it."""
        if self._is_local:
            raise Unprepared(
                f"there is no image {reference} on this machine, and such ones are not pulled"
            )
        self._programs.run([self._podman, "pull", f"docker://{reference}"], cwd="/")

    def exists(self, reference: str) -> bool:
        """Return whether it is on this machine."""
        found = self._ask("image", "exists", reference)
        if found.returncode not in (0, _MISSING):
            raise Unprepared(found.stderr.strip() or "podman does not work", passing=True)
        return found.returncode == 0

    def _digest(self) -> str:
        found = self._ask("image", "inspect", "--format", _TELL, self._name)
        own, *others = found.stdout.split() or [""]
        digests = [
            each.partition("@")[2] for each in others if each.partition("@")[0] == self._repository
        ]
        if found.returncode or not digests:
            raise Unprepared(found.stderr.strip() or f"image {self._name} has no digest")
        # That of the list of images for several processors, if it came from one.
        return next((each for each in digests if each != own), own)

    def _ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._podman, *words], cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False,
        )  # fmt: skip


def _words(spec: Spec, reference: str) -> list[str]:
    """Return what runs the container, as this user, and in the cgroup of this process."""
    folder = os.environ["STAYER_DIR"]
    user, group = os.geteuid(), os.getegid()
    lines, rest = _variables(spec["env"])
    file = os.path.join(folder, _VARIABLES_FILE)
    with open(file, "w", opener=lambda path, how: os.open(path, how, 0o600)) as written:
        written.write(lines)
    words = [
        spec["podman"], "run", "--rm", "--replace", "--name", spec["container"],
        "--pull", "never", "--interactive", "--log-driver", "none",
        "--cgroups", "disabled", "--network", "host",
        "--user", f"{user}:{group}", *(("--userns", "keep-id") if user else ()),
        "--volume", f"{folder}:{folder}", "--env-file", file,
    ]  # fmt: skip
    if spec.get("cwd"):
        words += ["--workdir", spec["cwd"]]
    for device in spec["devices"]:
        words += ["--device", device]
    return [*words, *rest, reference, *spec["argv"]]


def _variables(variables: dict[str, str]) -> tuple[str, list[str]]:
    """Return the variables of the task as the lines of a file, which nobody else can read; and as
    options those that do not fit on a line.
    """
    lines, rest = "", []
    for name, value in variables.items():
        # Of a line with a name alone, podman takes the value from its own variables.
        if "\n" in name + value:
            rest += ["--env", f"{name}={value}"]
        else:
            lines += f"{name}={value}\n"
    return lines, rest
