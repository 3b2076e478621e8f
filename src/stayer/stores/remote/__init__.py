"""A store behind `stayer serve`: what the command line, the client and workers need of the
contract, over HTTP.
"""

from stayer.stores.remote.store import HttpStore, open_server

__all__ = ["HttpStore", "open_server"]
