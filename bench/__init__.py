"""The benchmarks: Holdfast beside `ref`, the smallest raw queue on the same driver, or beside peers; equally durable.

Every measurement runs in fresh processes on a fresh database, contenders take turns within a round, medians are shown,
and every run checks itself: a message that was lost or came twice makes its row FAILED. Absolute numbers belong to one
machine and one day; only the ratios within one run mean something.
"""
