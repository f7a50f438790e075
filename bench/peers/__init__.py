"""Holdfast beside other queues: each in an environment of its own, driven by a small program of ours.

A peer is used as its documentation says, at the same durability as Holdfast: committed means flushed to the disk.
The programs in `drivers` run with the peer's own packages; here is only what installs, drives and compares them.
"""
