"""The only folder that knows a database. It applies values that `core` decided, in transactions, fenced by tokens.

`sqlite/` and `postgres/` hold the same files: learn one and you know the other. What both do alike (splitting a run,
expiry, dead letters) is written once beside them, over SQL blocks that both supply under the same names.
"""
