"""A spec at work: `holdfast serve`. The server is one process, the consumers are another; both read the same spec.

`loading` reads the spec and the user's module, `hooks` makes webhooks of it and `staffing` consumers; `staff` is what
the consumers' processes import, `workers` keeps them, `live` exchanges a spec for a newer one while all of it runs.
"""
