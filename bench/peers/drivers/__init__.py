"""One program per peer, run with the peer's packages, and with nothing of Holdfast's but the payload.

A driver reads commands from its standard input and answers on its standard output, a line of JSON each; `serving` and
`serving.mjs` are the two ends of that, and hold everything that is not particular to a peer.
"""
