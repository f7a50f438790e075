"""The peers: where they store, how durable that is, and how they are used. Packages and versions: versions.toml."""

from dataclasses import dataclass
from importlib.metadata import version as installed_version

SQLITE_FULL = "WAL, synchronous FULL"
POSTGRES_ON = "synchronous_commit on"
AS_HOLDFAST = "as Holdfast"


@dataclass(frozen=True)
class Peer:
    """`bulk`, `worker` and `wake` say how it enqueues many, how it drains, and how it waits for a message; `fan_out`
    how it gives every message to each of several groups, `sagas` how it does several steps one after the other; nothing
    where it does not."""

    name: str
    driver: str
    stores: tuple[str, ...]
    durability: str
    bulk: str = ""
    worker: str = ""
    wake: str = ""
    fan_out: str = ""
    sagas: str = ""
    own_server: bool = False
    """Stores nothing in the databases of the run, and is held against Holdfast on each of them."""

    def how(self, workload: str) -> str:
        said = {"w1": "", "w2": self.bulk, "w4": self.wake, "w6": self.fan_out, "w7": self.wake, "ws": self.sagas}
        return said.get(workload, self.worker)

    def takes_part(self, workload: str) -> bool:
        return bool({"w6": self.fan_out, "ws": self.sagas}.get(workload, self.worker))


PEERS = {
    peer.name: peer
    for peer in (
        Peer(
            "huey",
            "huey.py",
            ("sqlite",),
            SQLITE_FULL,
            bulk="no bulk call: one by one",
            worker="1 thread, polls every 10 ms; deletes before it runs",
            wake="polls every 10 ms",
        ),
        Peer(
            "plainjob",
            "plainjob.mjs",
            ("sqlite",),
            SQLITE_FULL,
            bulk="addMany",
            worker="one job at a time, polls every 10 ms",
            wake="polls every 10 ms",
        ),
        Peer(
            "persist-queue",
            "persistqueue.py",
            ("sqlite",),
            SQLITE_FULL,
            bulk="no bulk call: one by one",
            worker="one at a time, looks every millisecond",
            wake="looks every millisecond",
        ),
        Peer(
            "pgqueuer",
            "pgqueuer.py",
            ("postgres",),
            POSTGRES_ON,
            bulk="enqueue with lists",
            worker="batch_size 1,000, asyncpg, uvloop",
            wake="NOTIFY",
        ),
        Peer(
            "pgmq",
            "pgmq.py",
            ("postgres",),
            POSTGRES_ON,
            bulk="send_batch",
            worker="reads and deletes 1,000 at a time",
            wake="read_with_poll, every 5 ms",
            fan_out="no groups: send_batch_topic into a queue for each; reads and deletes 1,000 at a time",
        ),
        Peer(
            "pgq",
            "pgq.py",
            ("postgres",),
            POSTGRES_ON,
            fan_out="insert_event, a tick per 1,000; batches between ticks; its PL/pgSQL form",
        ),
        Peer(
            "pgq-copy",
            "pgq_copy.py",
            ("postgres",),
            POSTGRES_ON,
            fan_out="COPY into its table, a tick per 1,000; batches between ticks",
        ),
        Peer(
            "procrastinate",
            "procrastinate.py",
            ("postgres",),
            POSTGRES_ON,
            bulk="batch_defer_async",
            worker="concurrency 10, done jobs deleted",
            wake="NOTIFY",
        ),
        Peer(
            "graphile-worker",
            "graphile.mjs",
            ("postgres",),
            POSTGRES_ON,
            bulk="addJobs",
            worker="localQueue 2,000, 4 at once, completions batched",
            wake="NOTIFY, localQueue 2,000",
        ),
        Peer(
            "pg-boss",
            "pgboss.mjs",
            ("postgres",),
            POSTGRES_ON,
            bulk="insert",
            worker="batchSize 1,000, localConcurrency 4, burstWhenBatchFull",
            wake="NOTIFY",
        ),
        Peer(
            "redis-streams",
            "redis.py",
            ("sqlite", "postgres"),
            "AOF, appendfsync always",
            bulk="pipelined XADD",
            worker="XREADGROUP, XACK and XDEL of 1,000, hiredis",
            wake="XREADGROUP BLOCK",
            fan_out="pipelined XADD; XREADGROUP and XACK of 1,000, hiredis",
            own_server=True,
        ),
        Peer(
            "dbos",
            "dbos.py",
            ("sqlite", "postgres"),
            AS_HOLDFAST,
            sagas="workflows of three steps, called by 10 threads",
        ),
    )
}

OWN_DURABILITY = {"sqlite": SQLITE_FULL, "postgres": POSTGRES_ON}
OWN_WAKE = {"sqlite": "datagram", "postgres": "NOTIFY"}
FUSED = "acked with the next claim"
RUNTIME = "holdfast, run()"
"""Holdfast as a peer's worker is used: a handler and `hf.run()`; `holdfast` itself claims and acks by hand."""


@dataclass(frozen=True)
class Terms:
    """What a line of the comparison was measured under."""

    version: str
    durability: str
    how: str


def terms(store: str, contender: str, workload: str, version: str = "") -> Terms:
    """Of a peer, or of one of our own contenders: their names begin with holdfast or are ref."""
    if contender in PEERS:
        peer = PEERS[contender]
        durability = OWN_DURABILITY[store] if peer.durability == AS_HOLDFAST else peer.durability
        return Terms(version, durability, peer.how(workload))
    is_ref = contender == "ref"
    if workload == "ws":
        work = "one consumer" if contender == RUNTIME else "claim 100, ack"
        return Terms(installed_version("holdfast"), OWN_DURABILITY[store], f"started by 20 threads; {work}")
    if contender == RUNTIME:
        how = "one consumer, 1 thread" if workload == "w3" else f"one consumer, {OWN_WAKE[store]}"
        return Terms(installed_version("holdfast"), OWN_DURABILITY[store], how)
    claim = "100" if workload == "w5" or contender.endswith("claim 100") else "1,000"
    drain, wake = f"claim {claim}, {FUSED}", OWN_WAKE[store]
    bulk = "a transaction a call" if is_ref else "enqueue_many"
    fan_out = f"publish_many; {drain}"
    how = {"w2": bulk, "w3": drain, "w4": wake, "w5": drain, "w6": fan_out, "w7": wake}.get(workload, "")
    return Terms("" if is_ref else installed_version("holdfast"), OWN_DURABILITY[store], how)
