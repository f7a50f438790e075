"""`holdfast demo`: real processes on one queue, one of them killed in mid-work, and the proof that nothing was lost.

`plan` decides the numbers, `worker` is what the child processes run, `team` starts, hears and stops them, `ledger`
keeps account of every message by its id, `story` is what happens, `screen` shows it.
"""
