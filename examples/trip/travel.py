"""A trip: flight, hotel, car, and a card that pays for it all. Each is booked by a worker of its own."""

import os
import sys
from typing import Any

from holdfast import DeadLetter, Holdfast, Step

WORKERS = {
    "flights": ["flights.book", "flights.cancel"],
    "hotels": ["hotels.book", "hotels.cancel"],
    "cars": ["cars.book", "cars.cancel"],
    "cards": ["cards.charge"],
}

hf = Holdfast(os.environ["TRIP_DB"])


def declare() -> None:
    """What a trip consists of, and what takes each part of it back."""
    hf.saga(
        "trip",
        steps=[
            Step("flight", "flights.book", undo="flights.cancel"),
            [
                Step("hotel", "hotels.book", undo="hotels.cancel", undo_input=lambda data: {"booking": data.hotel}),
                Step("car", "cars.book", undo="cars.cancel", when=lambda data: data.drives == True),  # noqa: E712
            ],
            Step("card", "cards.charge", timeout="1m", input=lambda data: {"card": data.pays_with, "to": data.city}),
        ],
    )


@hf.consumer("flights.book", name="flights.book")
def book_flight(message: Any, context: Any) -> dict[str, str]:
    say("flights", f"a seat to {message.body['city']} ({context.step_key})")
    return {"seat": "12A"}


@hf.consumer("flights.cancel", name="flights.cancel")
def cancel_flight(message: Any) -> None:
    say("flights", f"seat {message.body['flight']['seat']} is free again")


@hf.consumer("hotels.book", name="hotels.book")
def book_hotel(message: Any) -> str:
    say("hotels", f"a room in {message.body['city']}, for whoever sits in {message.body['flight']['seat']}")
    return "room 7"


@hf.consumer("hotels.cancel", name="hotels.cancel")
def cancel_hotel(message: Any) -> None:
    say("hotels", f"{message.body['booking']} is free again")


@hf.consumer("cars.book", name="cars.book")
def book_car(message: Any) -> str:
    say("cars", "a small one")
    return "a small one"


@hf.consumer("cars.cancel", name="cars.cancel")
def cancel_car(message: Any) -> None:
    say("cars", f"{message.body['car']} is back")


@hf.consumer("cards.charge", name="cards.charge")
def charge(message: Any) -> str:
    if message.body["card"] == "worn out":
        say("cards", "declined")
        raise DeadLetter("the card was declined")
    say("cards", "paid")
    return "paid"


def say(who: str, what: str) -> None:
    print(f"{who:10}{what}", flush=True)


if __name__ == "__main__":
    hf.run(*WORKERS[sys.argv[1]])
