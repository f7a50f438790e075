"""H7: the server against its own description, with everything that a generator thinks of. Nothing ends in a 5xx."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from schemathesis.generation.stateful.state_machine import StepInput, StepOutput

from holdfast import Holdfast, Step
from holdfast.server import token_throttle
from holdfast.server.app import ROUTERS, create_app
from holdfast.server.openapi import LINKS
from holdfast.server.tokens import Tokens, new_token
from holdfast.server.webhooks.hook import Hook
from tests.long import only_long, size
from tests.server.servers import serving
from tests.steps import kill

pytestmark = pytest.mark.above_the_stores

PHASES = size("examples,coverage", "examples,coverage,fuzzing,stateful")
EXAMPLES = 3
SEED = 4
CHAINS = size(7, 15)


@pytest.fixture
def server(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """A server with something of everything in it, its guard and its limits, and a token for all of it.

    The checks present many wrong tokens. Each would cost a second, which `test_guessing` is about.
    """
    monkeypatch.setattr(token_throttle, "PACE", 0.001)
    text, token = new_token("fuzz", "admin")
    with Holdfast(url, strict=True, patience=10) as hf:
        hf.queue("q", ordering="per_key", on_dead="block")
        hf.topic("orders")
        hf.subscribe("orders", "email")
        hf.schedule("tick", queue="q", every=3600)
        for number in range(5):
            kill(hf, {"n": number}, key=str(number))
            hf.enqueue("q", number)
            hf.publish("orders.new", number)
        hf.saga("order", steps=[Step("charge", "q")])
        hf.start_saga("order", {"n": 1})
        app = create_app(hf, [Hook(name="q", queue="q")], tokens=Tokens([token]), routers=ROUTERS)
        with serving(hf, app) as running:
            yield running.address, text


@pytest.mark.parametrize("url", ["sqlite-apsw", pytest.param("postgres", marks=only_long)], indirect=True)
def test_the_server_keeps_to_its_description(server: tuple[str, str], url: str, tmp_path: Path) -> None:
    """All checks. Which requests are refused does not depend on the database: the coverage phase comes once."""
    address, token = server
    phases = "fuzzing,stateful" if url.startswith("postgresql") else PHASES
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{address}/openapi.json"),
        *("--checks", "all", "--phases", phases, "--workers", "1"),
        *("--max-examples", str(EXAMPLES), "--seed", str(SEED), "--generation-deterministic"),
        *("--header", f"Authorization: Bearer {token}", "--exclude-path", "/admin/events", "--no-color"),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout[-25_000:] + ran.stderr[-2_000:]


@pytest.mark.parametrize("url", ["sqlite-apsw"], indirect=True)
def test_one_answer_leads_to_the_next_request(server: tuple[str, str]) -> None:
    """Chains of requests along the links of the description: what is created is read, paused, canceled and so on."""
    address, token = server
    schema = schemathesis.openapi.from_url(f"{address}/openapi.json", headers={"Authorization": f"Bearer {token}"})
    chosen = {*LINKS, *(target for following in LINKS.values() for target in following)}
    machine = schema.include(operation_id=sorted(chosen)).as_state_machine()
    followed: set[str] = set()
    calls: list[bool] = []

    class Following(machine):  # type: ignore[misc, valid-type]
        def get_call_kwargs(self, case: schemathesis.Case) -> dict[str, object]:
            return {"headers": {"Authorization": f"Bearer {token}"}}

        def step(self, input: StepInput) -> StepOutput:
            if input.transition is None:
                _begin_well(input.case)
            elif input.is_applied:
                followed.add(input.transition.id)
            calls.append(input.transition is not None and input.is_applied)
            return super().step(input)  # type: ignore[no-any-return]

    Following.run(
        settings=hypothesis.settings(
            max_examples=CHAINS,
            stateful_step_count=10,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
    )
    assert sum(calls) >= 10, calls
    assert len(followed) >= 5, sorted(followed)


def _begin_well(case: schemathesis.Case) -> None:
    """The first request of a chain asks for something that there is; what follows is up to the answers."""
    if case.operation.definition.raw["operationId"] == "create_task":
        case.body = {"type": "q", "payload": 1}
    known = {"name": "tick" if "schedules" in case.path else "q", "topic": "orders", "group": "email"}
    case.path_parameters = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
