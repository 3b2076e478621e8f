"""One implementation of the contract for databases that speak SQL; the dialects stand apart.

`store.py` is the contract, `transaction.py` and `dialect.py` what it needs of a database. One file
an operation (or a family of them), each a function of a `Transaction`; the SQL is in
`statements.sql`, one named statement an operation, which a dialect's own may replace.
"""
