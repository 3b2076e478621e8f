"""A Debian booted by systemd in a container of systemd-nspawn, for `.ci/systemd-check`.

All of it is in namespaces and in memory, so it is gone when the process that made it ends, in
whatever way. What would stay is a cgroup: a process that waits for the end removes it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLACE = Path("/mnt")
"""Where everything is while it runs: an empty file system, which nobody else sees."""
TOOLS = ("systemd-nspawn", "unshare", "nsenter", "setpriv")
PACKAGES = (
    "ca-certificates", "dbus", "dbus-user-session", "libpam-systemd", "polkitd", "procps",
    "python3-venv", "sudo", "systemd-sysv",
)  # fmt: skip
MARK = "STAYER_SYSTEMD_CHECK"
INIT_REBOOTS = 133
"""How systemd-nspawn ends when the container wants to be started again."""
WAIT_S = 180
NETWORK_S = 1800
"""How long it may take to fetch and install packages."""
POLL_S = 0.1
REMOVE_CGROUP = """
trap '' INT TERM HUP
cat > /dev/null
for round in $(seq 100); do
    echo 1 2> /dev/null > "$1/cgroup.kill"
    find "$1" -depth -type d -exec rmdir {} + 2> /dev/null
    [ -d "$1" ] || exit 0
    sleep 0.1
done
echo "$1 could not be removed" >&2
"""


class Failed(Exception):
    """Something is not as it should be."""


class System:
    """A booted system, and how to run programs in it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._init = 0

    def path(self, inside: str) -> Path:
        """Return where a file of it is, seen from here."""
        return self._root / inside.lstrip("/")

    def boot(self) -> None:
        """Start it, and wait until all that it starts has been started."""
        command = [
            *nspawn(self._root), "--boot", "--private-network", "--machine=stayer-check",
            "--console=pipe",
        ]  # fmt: skip
        with (PLACE / "boot.log").open("ab") as log:
            self._nspawn = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            )  # fmt: skip
        wait_until(self._is_up, "the system to boot")

    def reboot(self) -> None:
        """As `systemctl reboot` does, and wait until it is up again."""
        assert self._nspawn is not None
        self.run("systemctl", "reboot", "--no-block", check=False)
        ended = self._nspawn.wait(WAIT_S)
        if ended != INIT_REBOOTS:
            raise Failed(f"the system did not reboot: systemd-nspawn ended with {ended}")
        self.boot()

    def run(self, *words: str, user: str | None = None, check: bool = True) -> str:
        """Run a program in it, as root or another user; return what it says."""
        inside = ["nsenter", "--target", str(self._init), "--all", "env", "--chdir=/", "-i"]
        inside += ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"]
        if user:
            number = self.run("id", "-u", user).strip()
            home = self.run("getent", "passwd", user).split(":")[5]
            inside += [f"XDG_RUNTIME_DIR=/run/user/{number}", f"HOME={home}"]
            inside += ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        return run([*inside, *words], check=check)

    def log(self) -> str:
        """Return the ends of what the console showed, and of the journal."""
        console = (PLACE / "boot.log").read_text() if (PLACE / "boot.log").exists() else ""
        journal = ["journalctl", "--no-pager", "--lines=60"]
        return console[-2000:] + (self.run(*journal, check=False) if self._init else "")

    def _is_up(self) -> bool:
        assert self._nspawn is not None
        if self._nspawn.poll() is not None:
            raise Failed("systemd-nspawn ended")
        children = f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children"
        for pid in map(int, Path(children).read_text().split()):
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                self._init = pid
                state = self.run("systemctl", "is-system-running", check=False).strip()
                return state in ("running", "degraded")
        return False


def in_namespaces(work: Callable[[], None]) -> None:
    """Do the work in namespaces and a cgroup of its own, which end with this process."""
    if os.environ.get(MARK):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        work()
        return
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if os.geteuid() or missing:
        sys.exit(f"this needs root and {', '.join(TOOLS)}")
    cgroup = find_cgroups() / f"stayer-check-{os.getpid()}"
    cgroup.mkdir()
    reading, writing = os.pipe()
    remover = subprocess.Popen(
        ["sh", "-c", REMOVE_CGROUP, "-", str(cgroup)], stdin=reading, start_new_session=True
    )
    os.close(reading)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    inside = None
    try:
        inside = subprocess.Popen(
            [
                "setpriv", "--pdeathsig", "KILL",
                "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(cgroup),
                "unshare", "--mount", "--pid", "--cgroup", "--ipc", "--uts",
                "--fork", "--kill-child", "--mount-proc", sys.executable, *sys.argv,
            ],
            env={**os.environ, MARK: "1"}, start_new_session=True,
        )  # fmt: skip
        sys.exit(inside.wait())
    finally:
        if inside is not None:
            inside.kill()
            inside.wait()
        os.close(writing)
        remover.wait()


def find_cgroups() -> Path:
    """Return where cgroups of version 2 are."""
    for line in Path("/proc/mounts").read_text().splitlines():
        if line.split()[2] == "cgroup2":
            return Path(line.split()[1])
    sys.exit("this needs cgroups of version 2")


def make_tree(base: str | None) -> Path:
    """Return a tree with Debian, systemd and Python: one over `base`, or a new one."""
    run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(PLACE)])
    run(["mount", "-t", "cgroup2", "cgroup2", "/sys/fs/cgroup"])
    root = PLACE / "root"
    root.mkdir()
    if base:
        upper, work = PLACE / "upper", PLACE / "work"
        upper.mkdir()
        work.mkdir()
        layers = f"lowerdir={Path(base).resolve()},upperdir={upper},workdir={work}"
        run(["mount", "-t", "overlay", "overlay", "-o", layers, str(root)])
        return root
    if not shutil.which("debootstrap"):
        sys.exit("no system to boot: name a tree of one, or install debootstrap to make it")
    packages = f"--include={','.join(PACKAGES)}"
    run(["debootstrap", "--variant=minbase", packages, "stable", str(root)], timeout=NETWORK_S)
    return root


def run_with_network(root: Path, script: str, cwd: str) -> str:
    """Run a script in the tree before it is booted, with this machine's network."""
    shared = [path for path in ("/etc/ssl/certs", "/etc/pip.conf") if os.path.exists(path)]
    binds = [f"--bind-ro={path}" for path in shared]
    return run([
        *nspawn(root), *binds, "--pipe", "--resolv-conf=replace-host", f"--chdir={cwd}",
        "sh", "-euc", script,
    ], timeout=NETWORK_S)  # fmt: skip


def nspawn(root: Path) -> list[str]:
    return [
        "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--settings=no",
        f"--directory={root}", "--timezone=off", "--link-journal=no",
    ]  # fmt: skip


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition; Failed if it does not come."""
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            raise Failed(f"waited {WAIT_S} s for {what}")
        time.sleep(POLL_S)


def run(command: list[str], check: bool = True, timeout: float = WAIT_S) -> str:
    """Run a program of this machine; return what it says."""
    try:
        done = subprocess.run(
            command, check=False, text=True, stdin=subprocess.DEVNULL, timeout=timeout,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired as expired:
        raise Failed(f"{expired}\n{(expired.output or b'').decode()}") from None
    if check and done.returncode:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def block(guide: str, title: str, language: str) -> str:
    """Return the first block of code in this language behind a title, or the words that begin a
    paragraph, of a guide.
    """
    text = (ROOT / "docs" / "how-to" / guide).read_text()
    found = re.search(rf"^(?:#+ )?{title}.*?^```{language}[^\n]*\n(.*?)^```$", text, re.M | re.S)
    if found is None:
        raise Failed(f"{guide} has no {language} below {title!r} any more")
    return found[1]
