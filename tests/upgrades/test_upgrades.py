"""The databases of released versions work with this one: everything in them is there, and comes to its end."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from holdfast import Holdfast, LeaseLost, SchemaMismatch
from holdfast.client.client import internals
from holdfast.store.migrate import digest_of
from tests.clock import FakeClock
from tests.long import only_long
from tests.steps import bodies
from tests.upgrades.filling import TENANTS, claim_of, observe
from tests.upgrades.releases import make_newer, next_migration

Promised = dict[str, Any]
OpenClient = Callable[..., Holdfast]


@pytest.fixture(params=[pytest.param("as it is", marks=only_long), "one migration later"])
def upgraded(request: pytest.FixtureRequest, hf: Holdfast, client: OpenClient) -> Holdfast:
    """A client of this release, and one of a release after it, which has migrated the database."""
    if request.param == "as it is":
        internals(hf).store.schema.migrate()
        return hf
    newer = make_newer(client(worker="newer"), next_migration(hf))
    ran = internals(newer).store.schema.migrate()
    assert ran[-1].endswith("added_later")
    return newer


def test_everything_is_there(upgraded: Holdfast, client: OpenClient, promised: Promised) -> None:
    def same_release(**settings: Any) -> Holdfast:
        hf = client(**settings)
        internals(hf).store.schema = internals(upgraded).store.schema  # type: ignore[misc]
        return hf

    assert observe(same_release, promised["ids"]) == promised["shown"]


def test_open_leases_are_settled_with_their_old_tokens(upgraded: Holdfast, promised: Promised) -> None:
    hf = upgraded
    for held in promised["leases"].values():
        claims = [claim_of(hf, one) for one in held]
        hf.extend(claims)
        hf.ack(claims)
    for name in ("claimed", "rows", "keyed", "limited", "orders/open", "orders/ordered", "hotel.book"):
        assert hf.stats(name).processing == 0, name
    assert hf.sagas.get("running").steps[1].status == "completed"
    hf.queues.resume("limited")
    found = [bodies(hf.claim(name, n=100)) for name in ("claimed", "limited", "keyed")]
    assert found == [["claimed-4", "claimed-5"], ["limited-2", "limited-3"], ["a-1", "c-0"]]
    assert bodies(hf.claim("orders", group="open", n=100)) == [f"created-{number}" for number in range(4)]


def test_open_leases_expire(upgraded: Holdfast, clock: FakeClock, promised: Promised) -> None:
    """And count as an attempt; the old tokens are worth nothing then."""
    hf = upgraded
    clock.advance("2h")
    hf.queues.resume("limited")
    for name, claims in promised["leases"].items():
        wanted, found = [one["body"] for one in claims], []
        while set(map(str, wanted)) - set(map(str, bodies(found))):
            found += hf.claim(claims[0]["queue"], lease="2h")
        attempts = {str(claim.message.body): claim.attempt for claim in found}
        assert [attempts[str(one["body"])] for one in claims] == [one["attempt"] + 1 for one in claims], name
        with pytest.raises(LeaseLost):
            hf.ack([claim_of(hf, one) for one in claims])


def test_everything_is_delivered_once_and_in_order(
    upgraded: Holdfast, client: OpenClient, clock: FakeClock, promised: Promised
) -> None:
    hf = upgraded
    clock.advance("12h")
    before = promised["shown"]["default"]["readers"]
    hf.schedules.fire()
    for name in ("limited", "orders/paused"):
        hf.queues.resume(name)
    found = {name: drained(hf, name) for name in before if not name.endswith((".book", ".cancel", ".inbox"))}
    for name, (pending, waiting, processing, _) in ((name, before[name]["counts"]) for name in found):
        is_blocked = name == "keyed"
        assert len(found[name]) == pending + waiting + processing - 2 * is_blocked + (name == "reports"), name
        assert max(Counter(map(str, found[name])).values(), default=1) == 1, f"{name}: {found[name]}"
        assert hf.stats(name).queue_depth == 2 * is_blocked, name
    assert found["plain"] == ["high", *[f"plain-{number}" for number in range(2, 8)], "low"]
    assert sorted(found["claimed"]) == [f"claimed-{number}" for number in range(2, 6)]
    assert found["fifo"] == ["fifo-1", "fifo-2", "fifo-3"]
    for key in ("a", "c"):
        assert [one for one in found["keyed"] if one[0] == key] == [f"{key}-{number}" for number in range(3)]
    for parity in (0, 1):  # Within a key, the order is that of priorities and then that of publishing.
        mine = [one for one in found["orders/ordered"] if int(one[-1]) % 2 == parity]
        assert sorted(mine) == sorted(
            f"{what}-{number}" for what in ("created", "paid") for number in (parity, parity + 2)
        )
        assert [one for one in mine if one.startswith("created")] == [f"created-{parity}", f"created-{parity + 2}"]
    assert found["reports"] == [{"kind": "hourly"}]
    theirs = client(tenant="acme", migrate=upgraded.settings.migrate)
    internals(theirs).store.schema = internals(upgraded).store.schema  # type: ignore[misc]
    assert sorted(drained(theirs, "plain")) == ["theirs-1", "theirs-2", "theirs-3"]
    assert sorted(TENANTS) == ["acme", "default"]


def test_what_was_enqueued_before_is_known_by_its_idempotency_key(upgraded: Holdfast, promised: Promised) -> None:
    for key, name in (("k-waiting", "waiting once"), ("k-acked", "acked once")):
        priority = "high" if key == "k-acked" else "normal"
        receipt = upgraded.enqueue("once", name.split()[0], idempotency_key=key, priority=priority)
        assert (receipt.duplicate, receipt.id) == (True, promised["ids"][name])


def test_sagas_come_to_their_end(upgraded: Holdfast, clock: FakeClock) -> None:
    hf = upgraded
    clock.advance("2h")  # Also the step that was in the hands of a process that is gone.
    for saga in ("running", "begun", "waiting"):
        hf.signal(saga, "paid", {"by": "card"})
    while claims := hf.claim("flight.book", "hotel.book", "car.book", "flight.cancel", n=10):
        for claim in claims:
            claim.ack({"by": "new"})
    ends = {saga.id: saga.status for saga in hf.sagas.list(n=100)}
    assert ends == {
        "done": "completed",
        "undone": "compensated",
        "waiting": "completed",
        "running": "completed",
        "begun": "completed",
    }
    assert hf.sagas.get("begun").data["car"] == {"by": "new"}
    assert hf.sagas.get("running").data["flight"] == {"seat": "running"}


def test_dead_letters_are_replayed(upgraded: Holdfast) -> None:
    hf = upgraded
    for queue, body in (("doomed", "doomed-1"), ("keyed", "b-0"), ("orders/open", "paid-3")):
        [letter] = [one for one in hf.dead_letters.list(queue) if one.message.body == body]
        hf.dead_letters.replay(letter.id)
    assert hf.queues.blocked("keyed") == []
    assert sorted(drained(hf, "doomed")) == ["doomed-1", "twice"]
    assert [one for one in drained(hf, "keyed") if one[0] == "b"] == ["b-0", "b-1", "b-2"]
    assert "paid-3" in drained(hf, "orders/open")


def test_a_group_that_was_dead_is_heard_of_again(upgraded: Holdfast) -> None:
    """Everything it missed is still retained."""
    upgraded.groups.heartbeat("orders", "silent")
    assert len(drained(upgraded, "orders/silent")) == 8


def test_new_messages_work_beside_the_old_ones(upgraded: Holdfast) -> None:
    upgraded.enqueue("plain", "new", priority="high")
    upgraded.publish("orders.us.created", "new")
    assert drained(upgraded, "plain")[:2] == ["high", "new"]
    assert drained(upgraded, "orders/choosy")[-1] == "new"
    assert drained(upgraded, "orders/done") == ["new"]


# --- migrations that are not ours -------------------------------------------------------------------------------------


TAMPERED = {
    "a changed text": lambda number, name, text: (number, name, text + "-- a comment\n"),
    "an unknown name": lambda number, name, text: (number, "001_theirs", text),
}


@pytest.mark.parametrize("how", TAMPERED)
@pytest.mark.parametrize("migrate", [True, False])
def test_a_release_with_a_tampered_migration_refuses_the_database(
    hf: Holdfast, client: OpenClient, promised: Promised, how: str, migrate: bool
) -> None:
    tampering = client(migrate=migrate)
    schema = internals(tampering).store.schema
    schema.known.all[0] = TAMPERED[how](*schema.known.all[0])  # type: ignore[attr-defined]
    for use in (tampering.queues.list, lambda: tampering.enqueue("plain", 1), schema.migrate):
        with pytest.raises(SchemaMismatch, match=r"^the database has seen migration 001_tables.*restore a backup"):
            use()
    assert observe(client, promised["ids"]) == promised["shown"]


def test_a_release_that_lacks_a_migration_in_the_middle_refuses_the_database(
    hf: Holdfast, client: OpenClient, promised: Promised
) -> None:
    lacking = client()
    known = internals(lacking).store.schema.known.all  # type: ignore[attr-defined]
    known[:] = [(number, name, text) for number, (_, name, text) in enumerate(known[1:], 1)]
    known.append((len(known) + 1, "999_another", "-- nothing\n"))
    with pytest.raises(SchemaMismatch, match="001_tables, which this Holdfast does not know"):
        lacking.queues.list()


def test_every_migration_of_the_release_has_its_text(hf: Holdfast, promised: Promised) -> None:
    """Also those that are not the first."""
    schema = internals(hf).store.schema
    seen = {one.number: (one.name, one.digest) for one in schema._database.applied()}  # type: ignore[attr-defined]
    ours = {number: (name, digest_of(text)) for number, name, text in schema.known.all}  # type: ignore[attr-defined]
    assert seen == {number: ours[number] for number in seen}


def drained(hf: Holdfast, name: str) -> list[Any]:
    """Claims one by one, and acks, until nothing is left; the bodies, in order."""
    topic, _, group = name.partition("/")
    found = []
    while claims := hf.claim(topic, group=group or None):
        found += bodies(claims)
        hf.ack(claims)
    return found
