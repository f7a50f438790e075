"""A dump restored on another server: transaction numbers start again, and the lanes must still be read completely."""

import psycopg
import pytest

from holdfast import Holdfast, StoreError
from holdfast.client.client import internals
from tests.stores import INSIDE

pytestmark = [pytest.mark.both_engines, pytest.mark.not_through_sqs(INSIDE)]

AGES = 1_000_000_000


def pretend_restored(url: str) -> None:
    """What pg_restore leaves behind on a young server: numbers from a far future."""
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE holdfast_message SET xid = (xid::text::bigint + %s)::text::xid8", (AGES,))
        for table in ("holdfast_cursor", "holdfast_run"):
            for column in ("lo", "hi"):
                connection.execute(
                    f"UPDATE {table} SET {column} = format('%%s:%%s:',"
                    f" pg_snapshot_xmin({column})::text::bigint + %(ages)s,"
                    f" pg_snapshot_xmax({column})::text::bigint + %(ages)s)::pg_snapshot",
                    {"ages": AGES},
                )
        connection.execute("UPDATE holdfast_cursor SET xid = (xid::text::bigint + %s)::text::xid8 ", (AGES,))
        for end in ("after", "last"):
            connection.execute(f"UPDATE holdfast_run SET {end}_xid = ({end}_xid::text::bigint + {AGES})::text::xid8")


def test_a_restored_database_is_refused_until_it_is_rebased_and_then_delivers_everything(postgres_url: str) -> None:
    with Holdfast(postgres_url) as before:
        before.enqueue_many("q", range(10))
        before.ack(before.claim("q", n=2))
        in_progress = before.claim("q", n=3)
        assert len(in_progress) == 3
    pretend_restored(postgres_url)

    with Holdfast(postgres_url) as refused, pytest.raises(StoreError, match="holdfast rebase"):
        refused.claim("q", n=100)

    with Holdfast(postgres_url) as after:
        internals(after).store.schema.rebase()
        after.enqueue("q", "new")
        found = []
        while claims := after.claim("q", n=100):
            found += [claim.message.body for claim in claims]
            after.ack(claims)
    assert sorted(map(str, found)) == sorted(map(str, [2, 3, 4, 5, 6, 7, 8, 9, "new"]))


def test_groups_go_on_in_a_restored_database(postgres_url: str) -> None:
    with Holdfast(postgres_url) as before:
        before.topic("t")
        for group in ("new", "half", "done", "ended"):
            before.subscribe("t", group)
        before.publish_many("t", range(10))
        before.ack(before.claim("t/half", n=4))
        before.claim("t/half", n=2)
        before.ack(before.claim("t/done", n=10))
        before.groups.remove("t", "ended")
    pretend_restored(postgres_url)

    with Holdfast(postgres_url) as after:
        internals(after).store.schema.rebase()
        internals(after).store.schema.rebase()
        after.subscribe("t", "ended")
        after.publish("t", "new")
        found = {}
        for group in ("new", "half", "done", "ended"):
            found[group] = []
            while claims := after.claim("t", group=group, n=100):
                found[group] += [claim.message.body for claim in claims]
                after.ack(claims)
    assert sorted(map(str, found.pop("half"))) == sorted(map(str, [4, 5, 6, 7, 8, 9, "new"]))
    assert found == {"new": [*range(10), "new"], "done": ["new"], "ended": ["new"]}


def test_rebasing_a_healthy_database_loses_nothing(url: str) -> None:
    with Holdfast(url) as hf:
        hf.enqueue_many("q", range(5))
        hf.claim("q", n=2)
        internals(hf).store.schema.rebase()
        internals(hf).store.schema.rebase()
        assert not internals(hf).store.schema.is_ahead()
        assert hf.stats("q").pending + hf.stats("q").processing == 5
