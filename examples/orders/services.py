"""Four services that each want to know of orders, and none of them knows the others."""

import os
import sys
from typing import Any

from holdfast import Holdfast, Retry

SERVICES = {
    "email": ["orders.*.created"],
    "analytics": ["orders.**"],
    "inventory": ["orders.*.created", "orders.*.canceled"],
    "shipping": ["orders.*.created"],
}

hf = Holdfast(os.environ["ORDERS_DB"])


def declare() -> None:
    """A topic, and who is owed what of it, whether or not it is running."""
    hf.topic("orders", retention="7d")
    for service, patterns in SERVICES.items():
        hf.subscribe("orders", service, patterns=patterns, backoff="100ms..1s")


@hf.subscriber(*SERVICES["email"], group="email")
def email(message: Any) -> None:
    say("email", f"confirms order {message.body['order']}")


@hf.subscriber(*SERVICES["analytics"], group="analytics")
def analytics(message: Any) -> None:
    say("analytics", f"counts {message.topic}")


@hf.subscriber(*SERVICES["inventory"], group="inventory")
def inventory(message: Any, context: Any) -> None:
    what = message.topic.rsplit(".", 1)[1]
    if message.body["order"] == 3 and context.attempt == 1:
        say("inventory", "cannot reach the warehouse for order 3")
        raise Retry("200ms", reason="the warehouse does not answer")
    say("inventory", f"notes that order {message.body['order']} was {what}")


@hf.subscriber(*SERVICES["shipping"], group="shipping")
def shipping(message: Any) -> None:
    say("shipping", f"packs order {message.body['order']}")


def say(who: str, what: str) -> None:
    print(f"{who:10}{what}", flush=True)


if __name__ == "__main__":
    hf.run(sys.argv[1])
