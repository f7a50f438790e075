"""Sagas of a spec, served: commands are steps, whatever is killed meanwhile, and a new spec leaves old ones be."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from holdfast import Holdfast
from holdfast.client.client import internals
from tests.acceptance.programs import GUARD
from tests.server.serving.conftest import Desk
from tests.server.serving.served import Served
from tests.waiting import eventually

pytestmark = pytest.mark.above_the_stores

ORDER = """
  queue Stock {{
    message_type {{ item: string, charge: string }}
    delivery {{ lease: 2s }}
    map_to: command Stock.Take {{ item: item, charge: charge }}
  }}
  queue holdfast.commands.Card.Charge {{ delivery {{ lease: 2s }} }}
  queue holdfast.commands.Parcel.Ship {{ delivery {{ lease: 2s, max_attempts: 5, backoff: none }} }}
  saga order {{
    data {{ number: string, price: float, to: string }}
    step card {{
      command: Card.Charge {{ amount: data.price * 2.0 }}
      undo: command Card.Refund {{ charge: steps.card.id }}
    }}
    parallel goods {{
      step box {{ queue: Stock, input: {{"item": "box", "charge": steps.card.id}} }}
      step ribbon {{ queue: Stock, input: {{"item": "ribbon", "charge": ""}}, when: data.price > 100.0 }}
    }}
    step approval {{ event: "approved", timeout: 1h }}
    {last}
  }}
  webhook Orders {{
    command: Order.Place {{ number: payload.number, price: payload.price, to: payload.to }}
    verify_hmac {{ header: "X-Signature" secret_env: "HOOK_SECRET" }}
  }}
"""
SHIP = "step ship { command: Parcel.Ship { to: data.to, charge: steps.card.id } }"
MAIL = "step mail { command: Mail.Send { to: data.to } }"

MODULE = """
import os, pathlib

def register(hf):
    def write(conn, what):
        conn.execute(f"INSERT INTO ledger VALUES ('{what}')")
        fatal = pathlib.Path(__file__).with_name(what.split()[0] + ".fatal")
        if fatal.exists():
            fatal.unlink()
            os.kill(os.getpid(), 9)

    @hf.command("Ticket.Open")
    def open_ticket(title: str): ...

    @hf.command("Order.Place")
    def place(number: str, price: float, to: str):
        return hf.start_saga("order", {"number": number, "price": price, "to": to}, id=number)

    @hf.command("Card.Charge")
    def charge(amount: float, conn) -> dict:
        write(conn, f"charge {amount:g}")
        return {"id": f"c{amount:g}"}

    @hf.command("Card.Refund")
    def refund(charge: str, conn) -> None:
        write(conn, f"refund {charge}")

    @hf.command("Stock.Take")
    def take(item: str, charge: str, conn) -> None:
        write(conn, f"take {item} {charge}")

    @hf.command("Parcel.Ship")
    def ship(to: str, charge: str, conn) -> None:
        if to == "nowhere":
            raise LookupError("there is no such place")
        write(conn, f"ship {to} {charge}")

    @hf.command("Mail.Send")
    async def send(to: str):
        return f"mail to {to}"
"""


@pytest.fixture
def shop(desk: Desk, look: Callable[[], Holdfast]) -> Desk:
    hf = look()
    hf.queue("Graves")
    with internals(hf).store.lend() as conn:
        conn.execute("CREATE TABLE ledger (line TEXT)")
    (desk.folder / "handlers.py").write_text(MODULE)
    say(desk, SHIP)
    return desk


def say(desk: Desk, last: str) -> None:
    """The spec with this as the last step."""
    module = (desk.folder / "handlers.py").read_text()
    desk.write(ORDER.format(last=last))
    (desk.folder / "handlers.py").write_text(module)


def ledger(hf: Holdfast) -> list[str]:
    with internals(hf).store.lend() as conn:
        return sorted(line for (line,) in conn.execute("SELECT line FROM ledger").fetchall())


def place(server: Served, number: str, to: str = "mia", price: float = 10.0) -> None:
    answer = server.deliver("Orders", {"number": number, "price": price, "to": to})
    assert answer.status_code == 200, answer.text


def reaches(server: Served, number: str, status: str, running: str | None = None) -> dict[str, Any]:
    def is_there() -> bool:
        found = server.get(f"admin/sagas/{number}")
        under_way = [step["name"] for step in found["steps"] if step["status"] == "running"]
        return bool(found["status"] == status and (running is None or under_way == [running]))

    eventually(is_there, f"{number} is {status} {running or ''}")
    found: dict[str, Any] = server.get(f"admin/sagas/{number}")
    return found


def approve(server: Served, number: str) -> None:
    path = f"{server.address}/admin/sagas/{number}/signals/approved"
    assert httpx.post(path, json={"data": {"by": "boss"}}, timeout=GUARD).is_success


@pytest.mark.parametrize("db", ["sqlite", "postgres"], indirect=True)
def test_consumers_and_server_are_killed_in_the_middle(shop: Desk, look: Callable[[], Holdfast]) -> None:
    """The process dies with the charge written and not committed; later the whole server does; then once more."""
    hf = look()
    (shop.folder / "charge.fatal").touch()
    server = shop.serve().ready()
    assert "saga order: card → (box + ribbon) → approval → ship" in server.said
    place(server, "o1")
    server.hears("the consumers' process ended with -9")
    reaches(server, "o1", "in_progress", "approval")

    os.killpg(server.process.pid, signal.SIGKILL)
    (shop.folder / "ship.fatal").touch()
    server = shop.serve().ready()
    place(server, "o1")  # The sender repeats itself.
    approve(server, "o1")
    server.hears("the consumers' process ended with -9")
    saga = reaches(server, "o1", "completed")
    assert [step["status"] for step in saga["steps"]] == ["completed", "completed", "skipped", "completed", "completed"]
    assert saga["data"]["card"] == {"id": "c20"}
    assert saga["data"]["approval"] == {"by": "boss"}
    assert ledger(hf) == ["charge 20", "ship mia c20", "take box c20"]


def test_what_fails_is_undone_by_commands(shop: Desk, look: Callable[[], Holdfast]) -> None:
    server = shop.serve().ready()
    place(server, "o1", to="nowhere")
    approve(server, "o1")
    saga = reaches(server, "o1", "compensated")
    assert saga["error"].endswith("LookupError: there is no such place")
    assert ledger(look()) == ["charge 20", "refund c20", "take box c20"]


def test_a_saga_that_is_under_way_keeps_its_definition(shop: Desk, look: Callable[[], Holdfast]) -> None:
    """The new spec has no command in common with the last step of the old one."""
    server = shop.serve().ready()
    place(server, "old")
    reaches(server, "old", "in_progress", "approval")
    say(shop, MAIL)
    server.hears("reloaded app.holdfast")
    assert "changed saga order" in server.said
    place(server, "new", price=20.0)
    reaches(server, "new", "in_progress", "approval")
    approve(server, "old")
    approve(server, "new")
    old, new = reaches(server, "old", "completed"), reaches(server, "new", "completed")
    assert (old["version"], new["version"]) == (1, 2)
    assert (list(old["data"])[-1], new["data"]["mail"]) == ("ship", "mail to mia")
    assert ledger(look()) == ["charge 20", "charge 40", "ship mia c20", "take box c20", "take box c40"]


def test_a_command_that_nobody_declared_keeps_the_spec_from_being_served(shop: Desk) -> None:
    say(shop, "step ship { command: Parcel.Shp { to: data.too } }")
    server = shop.serve()
    assert server.wait() == 1
    assert "there is no command 'Parcel.Shp'" in server.said
    assert "did you mean 'Parcel.Ship'?" in server.said
    assert "there is no field 'too'" in server.said
