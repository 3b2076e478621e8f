"""Moving a store: what it holds as neutral records, and the mark that it bears meanwhile."""
