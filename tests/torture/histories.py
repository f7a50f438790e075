"""Histories made by hand, for tests of the checker: a line per call, in the order of the story."""

from typing import Self

from holdfast.torture.checks import check
from holdfast.torture.ending import ChannelEnd, FinalState, SagaEnd
from holdfast.torture.history import CLAIM, EXTEND, FAIL, INVOKE, OK, SEND, START_SAGA, HistoryEvent, Item
from holdfast.torture.verdict import TortureVerdict

LEASE = 1000_000
"""One second."""


class Tale:
    """What happened, one call after the other, each a millisecond later; both clocks are the same."""

    def __init__(self, *channels: ChannelEnd) -> None:
        self.now = 1_000_000
        self.calls = 0
        self.events: list[HistoryEvent] = []
        self.ends = {end.name: end for end in channels or (ChannelEnd("q", max_attempts=5),)}
        self.sagas: list[SagaEnd] = []

    def wait(self, micros: int) -> Self:
        self.now += micros
        return self

    def send(
        self,
        id: str,
        channel: str = "q",
        *,
        key: str | None = None,
        idem: str | None = None,
        value: str = "",
        outcome: str = OK,
        stored: str = "",
    ) -> Self:
        item = Item(id, channel, value or f"v-{id}", key, idem)
        answer = Item(stored or id, channel, value or f"v-{id}", duplicate=bool(stored))
        return self.call("producer", SEND, [item], [answer], outcome)

    def claim(self, id: str, attempt: int = 1, *, by: str = "ann", channel: str = "q", outcome: str = OK) -> Self:
        """The token is the attempt's number and its time."""
        self.calls += 1
        token = self.token(id, attempt, by)
        granted = Item(id, channel, f"v-{id}", None, None, attempt, token, self.now, self.now + LEASE)
        return self.call(by, CLAIM, [Item(channel=channel)], [granted], outcome)

    def end(
        self, op: str, id: str, attempt: int = 1, *, by: str = "ann", channel: str = "q", outcome: str = OK
    ) -> Self:
        item = Item(id, channel, token=self.token(id, attempt, by))
        if op == EXTEND:
            item = Item(id, channel, token=item.token, until=self.now + LEASE)
        return self.call(by, op, [item], [item], outcome)

    def start_saga(self, id: str) -> Self:
        return self.call("starter", START_SAGA, [Item(id)], [Item(id)], OK)

    def state(self, id: str, state: str, channel: str = "q") -> Self:
        """In the end."""
        self.ends[channel].messages[id] = state
        return self

    def call(self, who: str, op: str, asked: list[Item], answered: list[Item], outcome: str) -> Self:
        """`lost` is a call that was never answered."""
        self.calls += 1
        self.events.append(HistoryEvent(self.now, who, op, INVOKE, self.calls, asked))
        self.now += 500
        if outcome in (OK, FAIL):
            self.events.append(
                HistoryEvent(self.now, who, op, outcome, self.calls, answered if outcome == OK else asked)
            )
        self.now += 500
        return self

    def token(self, id: str, attempt: int, by: str) -> int:
        return sum(map(ord, f"{id}{by}")) * 1000 + attempt

    def final(self) -> FinalState:
        return FinalState(list(self.ends.values()), self.sagas)

    def verdict(self) -> TortureVerdict:
        return check(self.events, self.final())

    def faults(self) -> dict[str, int]:
        """By check, those that found something."""
        return {name: count for name, count in self.verdict().violations.items() if count}


def life(tale: Tale, id: str, channel: str = "q", *, key: str | None = None) -> Tale:
    """Sent, claimed, acked, and known as succeeded."""
    tale.send(id, channel, key=key).claim(id, channel=channel).end("ack", id, channel=channel)
    return tale.state(id, "succeeded", channel)
