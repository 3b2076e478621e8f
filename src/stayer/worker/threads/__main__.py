"""See the package."""

from __future__ import annotations

import sys

from stayer.worker.threads.watchdog import guard


def main(descriptor: int, lease_path: str, length: float, parent: int) -> None:
    """Become a guard and, forked from it, a pool."""
    guard(lease_path, length, parent, descriptor)

    # Only now: the guard needs none of this.
    from stayer.worker.threads.main import begin

    begin(descriptor)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4]))
