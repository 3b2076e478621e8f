"""A store behind `stayer serve`: what the command line and the client need of the contract, over
HTTP. Workers need the database itself.
"""

from stayer.stores.remote.store import HttpStore, open_server

__all__ = ["HttpStore", "open_server"]
