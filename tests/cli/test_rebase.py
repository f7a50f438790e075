"""`holdfast rebase`: what a restored dump needs, and nothing anywhere else."""

from pathlib import Path

import psycopg
import pytest

from holdfast import Holdfast, StoreError
from tests.cli.commands import holdfast

FAR = 1_000_000_000


@pytest.fixture
def restored(postgres_url: str) -> str:
    """A database whose numbers come from a server that has counted much further than this one."""
    with Holdfast(postgres_url) as hf:
        hf.queue("q", max_attempts=3)
        hf.enqueue_many("q", ["done", "held"])
        done, _ = hf.claim("q", n=2)
        done.ack()
        hf.enqueue_many("q", [1, 2, 3])
        hf.enqueue_many("q", [4, 5])
        hf.enqueue("q", "later", delay=3600)
    shifted = "(xid::text::bigint + :far)::text::xid8".replace(":far", str(FAR))
    with psycopg.connect(postgres_url) as server:
        server.execute(f"UPDATE holdfast_message SET xid = {shifted}".encode())
        for table in ("holdfast_cursor", "holdfast_run"):
            for column in ("lo", "hi"):
                server.execute(
                    f"UPDATE {table} SET {column} = ({FAR} + pg_snapshot_xmin({column})::text::bigint || ':' ||"
                    f" {FAR} + pg_snapshot_xmax({column})::text::bigint || ':')::pg_snapshot"
                    f" WHERE {column}::text <> '1:1:'".encode()
                )
        server.execute(f"UPDATE holdfast_cursor SET {'xid = ' + shifted}".encode())
        server.execute(
            f"UPDATE holdfast_run SET after_xid = {shifted.replace('xid::text', 'after_xid::text', 1)},"
            f" last_xid = {shifted.replace('xid::text', 'last_xid::text', 1)}".encode()
        )
    return postgres_url


def test_a_restored_database_is_refused_until_it_is_rebased(restored: str, tmp_path: Path) -> None:
    with Holdfast(restored) as hf, pytest.raises(StoreError, match="holdfast rebase"):
        hf.claim("q")

    answer = holdfast("rebase", "--db", restored, folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("done")

    with Holdfast(restored) as hf:
        hf.enqueue("q", 6)
        found = []
        while claims := hf.claim("q", n=10):
            found += [(claim.message.body, claim.attempt) for claim in claims]
            hf.ack(claims)
        assert found[0] == ("held", 2)
        assert found[1:] == [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1)]
        assert hf.stats("q").waiting == 1


def test_a_second_time_there_is_nothing_to_do(restored: str, tmp_path: Path) -> None:
    holdfast("rebase", "--db", restored, folder=tmp_path)
    again = holdfast("rebase", "--db", restored, folder=tmp_path)
    assert (again.returncode, again.stdout.partition(":")[0]) == (0, "nothing to do")


def test_a_database_that_does_not_need_it_is_left_alone(url: str, tmp_path: Path) -> None:
    with Holdfast(url) as hf:
        hf.enqueue_many("q", [1, 2])
        claims = hf.claim("q", n=2)
        answer = holdfast("rebase", "--db", url, folder=tmp_path)
        assert (answer.returncode, answer.stdout.partition(":")[0]) == (0, "nothing to do")
        hf.ack(claims)


def test_an_empty_database_is_refused(empty_postgres_url: str, tmp_path: Path) -> None:
    answer = holdfast("rebase", "--db", empty_postgres_url, folder=tmp_path)
    assert (answer.returncode, answer.stderr) == (1, "holdfast: there is nothing of Holdfast in this database\n")
