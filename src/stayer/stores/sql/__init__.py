"""One implementation of the contract for databases that speak SQL; the dialects stand apart.

One file an operation (or a family of them), each a function of a `Transaction`; the SQL is in the
dialect's `statements.sql`, one named statement an operation.
"""
