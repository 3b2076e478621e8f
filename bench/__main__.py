"""`make bench`, or `python -m bench [PART …]`: see `PARTS`."""

from __future__ import annotations

import argparse

from bench.command_tasks import commands, costs
from bench.keepers import keepers
from bench.short_tasks import threads
from bench.startup import startup
from bench.store_speed import against_floor, growth, wake_up

PARTS = {
    "floor": against_floor,
    "wake": wake_up,
    "startup": startup,
    "keepers": keepers,
    "threads": threads,
    "commands": commands,
    "costs": costs,
    "growth": growth,
}


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    wanted = parser.parse_args().parts or list(PARTS)
    for part in wanted:
        if part not in PARTS:
            parser.error(f"no part {part!r}: there are {', '.join(PARTS)}")
        PARTS[part]()


if __name__ == "__main__":
    main()
