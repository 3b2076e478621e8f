"""`make bench`, or `python -m bench [PART …] [--store KIND] [--only PEER]`: see `PARTS`."""

from __future__ import annotations

import argparse

from bench.against_peers import peers
from bench.beats import beats
from bench.command_tasks import commands, costs
from bench.due import due
from bench.flow_speed import flows
from bench.http_speed import post
from bench.http_streams import streams
from bench.keepers import keepers
from bench.kinds import KINDS
from bench.order import lines, programs
from bench.page import page
from bench.preloaded_tasks import preload
from bench.short_tasks import threads
from bench.sql_peers import sql_peers
from bench.startup import startup
from bench.store_speed import against_floor, growth, wake_up

OF_STORES = {
    "floor": against_floor, "wake": wake_up, "growth": growth, "lines": lines, "due": due,
    "programs": programs, "flows": flows, "post": post,
}  # fmt: skip
OTHERS = {
    "startup": startup,
    "keepers": keepers,
    "threads": threads,
    "commands": commands,
    "preload": preload,
    "costs": costs,
    "streams": streams,
    "page": page,
    "sql": sql_peers,
    "beats": beats,
}
PARTS = [*OF_STORES, *OTHERS, "peers"]


def main() -> None:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--store", action="append", choices=list(KINDS), help="all, if left out")
    parser.add_argument(
        "--only", action="append", metavar="PEER", help="of `peers`; all, if left out"
    )
    asked = parser.parse_args()
    for part in asked.parts or PARTS:
        if part not in PARTS:
            parser.error(f"no part {part!r}: there are {', '.join(PARTS)}")
        if part == "peers":
            peers(asked.only)
        elif part in OTHERS:
            OTHERS[part]()
        else:
            for name in asked.store or KINDS:
                OF_STORES[part](KINDS[name])


if __name__ == "__main__":
    main()
