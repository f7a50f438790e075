"""The rules of a delivery apply in their order: each fault is hidden by those before it."""

from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.server.error_responses import Refusal
from holdfast.server.webhooks import rules as webhooks_rules
from holdfast.server.webhooks.bodies import check_size
from holdfast.server.webhooks.headers import Fields
from holdfast.server.webhooks.hook import Hook, TypeFault, networks
from holdfast.server.webhooks.rules import CheckedDelivery
from holdfast.server.webhooks.signatures import Verifier
from tests.server.servers import NOW, SECRET, sign

pytestmark = pytest.mark.above_the_stores

FAULT = TypeFault("$.payload", "no")


class Attempt:
    """A delivery to a webhook, with everything wrong about both that can be."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {
            "networks": networks(["203.0.113.0/24"]),
            "max_size": 1,
            "wanted": lambda envelope: False,
            "key": lambda envelope: None,
            "routing": lambda envelope: "elsewhere",
            "check": lambda envelope: FAULT,
        }
        self.headers = {b"x-signature": b"0" * 64, b"content-encoding": b"gzip", b"content-type": b"text/plain"}
        self.body = b"{{"

    def sign(self) -> None:
        self.headers[b"x-signature"] = sign(self.body).encode()

    def outcome(self, **better: Any) -> tuple[int, str] | CheckedDelivery | None:
        """What the rules say, once these settings are better."""
        self.settings |= better
        hook = Hook(name="h", queues=frozenset({"q"}), verifier=Verifier("X-Signature", [SECRET]), **self.settings)
        try:
            webhooks_rules.check_sender(hook, "192.0.2.1")
            check_size(len(self.body), hook.max_size)
            return webhooks_rules.examine(hook, "192.0.2.1", Fields(list(self.headers.items())), self.body, NOW)
        except HoldfastError as problem:
            refusal = webhooks_rules.refusal_for(problem)
        except Refusal as problem:
            refusal = problem
        return refusal.status, refusal.code


def test_each_rule_hides_those_behind_it() -> None:
    attempt = Attempt()
    assert attempt.outcome() == (403, "forbidden")
    assert attempt.outcome(networks=()) == (413, "too_large")
    assert attempt.outcome(max_size=100) == (401, "unauthorized")
    attempt.sign()
    assert attempt.outcome() == (415, "unsupported_type")
    del attempt.headers[b"content-encoding"]
    assert attempt.outcome() == (415, "unsupported_type")
    attempt.headers[b"content-type"] = b"application/json"
    assert attempt.outcome() == (400, "bad_json")
    attempt.body = b"{}"
    attempt.sign()
    assert attempt.outcome() is None, "the filter"
    assert attempt.outcome(wanted=lambda envelope: True) == (400, "invalid"), "the key"
    assert attempt.outcome(key=lambda envelope: "k") == (400, "no_route")
    unfit = attempt.outcome(routing=lambda envelope: "q")
    assert isinstance(unfit, CheckedDelivery)
    assert (unfit.fault, unfit.identity.key) == (FAULT, "k"), "it may have been accepted before"
    fit = attempt.outcome(check=None)
    assert isinstance(fit, CheckedDelivery)
    assert (fit.fault, fit.target, fit.content["payload"]) == (None, "q", {})


def test_without_a_key_an_unfit_delivery_is_refused_at_once() -> None:
    hook = Hook(name="h", queue="q", check=lambda envelope: FAULT)
    headers = Fields([(b"content-type", b"application/json")])
    with pytest.raises(Refusal) as found:
        webhooks_rules.examine(hook, "", headers, b"{}", NOW)
    assert (found.value.status, found.value.code, found.value.details) == (400, "schema", {"path": "$.payload"})
