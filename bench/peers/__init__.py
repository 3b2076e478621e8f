"""The same no-op for Stayer and its peers, a module each (`for_…`), imported in its environment."""
