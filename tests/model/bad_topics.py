"""I23: what a user may hand over by mistake where topics are concerned. See `bad_input`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from holdfast import Holdfast, NotFound, UnknownGroup, UnknownTopic
from tests.client_names import method_of
from tests.model.mistakes import (
    AMOUNTS,
    CONNS,
    ENDLESS,
    HEADERS,
    ID_SAYS,
    IDS,
    JSON_SAYS,
    LABELS,
    LENGTHS_OR_NONE,
    MANY_DIGITS,
    NAMES,
    NAMES_OR_NONE,
    NAN,
    NOBODY,
    PROMISE,
    RATES,
    TEXT_SAYS,
    TEXTS,
    VALUES,
    WHOLE,
    WORDS,
    Argument,
    Bad,
    length,
    named,
)

TOPICS = {**NAMES, "no first segment": ".a", "an empty segment": "a..b", "no last segment": "a.", "a pattern": "a.*"}
PATTERNS = {
    **NAMES_OR_NONE,
    "no pattern": [],
    "a number among them": ["news.a", 7],
    "another topic's": "olds.*",
    "a part of the name": "new.*",
    "half a segment": "news.a*",
    "the rest in the middle": "news.**.a",
    "an empty segment": "news..a",
    "a hundred and one": [f"news.{n}" for n in range(101)],
}
STARTS = {
    "an unknown word": "now",
    "nothing": "",
    "None": None,
    "True": True,
    "a list": [1],
    "negative": -1,
    "NaN": NAN,
    "infinite": ENDLESS,
    "beyond text": MANY_DIGITS,
    "no zone": datetime(2026, 1, 1),
    "no id": "x" * 36,
}


def _of_publish() -> Iterator[Argument]:
    """Both methods take the same options."""
    for method, body in (("publish", 1), ("publish_many", [1, 2])):

        def put(hf: Holdfast, method: str = method, body: Any = body, topic: Any = "news.a", **options: Any) -> object:
            return getattr(hf, method)(topic, body, **options)

        yield Argument(f"{method}(topic)", lambda hf, bad, put=put: put(hf, topic=bad), TOPICS, "^topic ")
        for name in ("key", "correlation_id", "reply_to"):
            hand = lambda hf, bad, put=put, name=name: put(hf, **{name: bad})  # noqa: E731
            yield Argument(f"{method}({name}=)", hand, TEXTS, named(name, TEXT_SAYS))
        yield length(method, "ttl", lambda hf, bad, put=put: put(hf, ttl=bad), {**LENGTHS_OR_NONE, "no time": 0})
        hand = lambda hf, bad, put=put: put(hf, headers=bad)  # noqa: E731
        yield Argument(f"{method}(headers=)", hand, HEADERS, named("headers", JSON_SAYS + "|must be"))
        levels = {"4": 4, "True": True, "a word": "soon", "None": None}
        yield Argument(f"{method}(priority=)", lambda hf, bad, put=put: put(hf, priority=bad), levels, "^priority must")
        yield Argument(f"{method}(conn=)", lambda hf, bad, put=put: put(hf, conn=bad), CONNS, "^conn= on .* takes")
    says = named("body", JSON_SAYS)
    yield Argument("publish(body)", lambda hf, bad: hf.publish("news", bad), VALUES, says)
    yield Argument("publish_many(bodies)", lambda hf, bad: hf.publish_many("news", bad), {"None": None}, "^bodies must")
    yield Argument("publish_many(bodies), one", lambda hf, bad: hf.publish_many("news", [1, bad]), VALUES, says)
    hand = lambda hf, bad: hf.publish("news", 1, idempotency_key=bad)  # noqa: E731
    yield Argument("publish(idempotency_key=)", hand, TEXTS, named("idempotency_key", TEXT_SAYS))
    hand = lambda hf, bad: hf.publish_many("news", [1], idempotency_key=bad)  # noqa: E731
    yield Argument("publish_many(idempotency_key=)", hand, {"one for all": "k"}, "needs a function")


def _of_topic() -> Iterator[Argument]:
    def declare(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.topic("fresh", **{name: bad})

    yield Argument("topic(name)", lambda hf, bad: hf.topic(bad), TOPICS, "^name ")
    yield Argument("topic(name)", lambda hf, bad: hf.topic(bad, mode="queue"), TOPICS, "^name ")
    yield Argument("topic(mode=)", declare("mode"), WORDS, "^mode must be one of")
    for name in ("retention", "idempotency_window"):
        yield length("topic", name, declare(name))
    kept = {**LENGTHS_OR_NONE, "beyond retention": "25h"}
    yield length("topic", "min_retention", declare("min_retention"), kept)
    yield Argument("topic(no_subscribers=)", declare("no_subscribers"), WORDS, "^no_subscribers must be one of")
    for name in ("max_size", "max_depth"):
        yield Argument(f"topic({name}=)", declare(name), WHOLE, f"^{name} must be a whole number")
    for name in ("lease", "retenshun"):
        yield Argument(f"topic({name}=)", declare(name), {"no setting of a topic": 1}, "^topic\\(\\) has no setting")


def _of_groups() -> Iterator[Argument]:
    def join(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.subscribe("news", "fresh", **{name: bad})

    for verb in ("subscribe", "groups.remove", "groups.cancel", "groups.heartbeat", "groups.accept_loss"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad, "fresh")  # noqa: E731
        yield Argument(f"{verb}(topic)", hand, TOPICS, "^topic ")
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)("news", bad)  # noqa: E731
        yield Argument(f"{verb}(group)", hand, NAMES, "^group ")
    for verb in ("groups.settings", "groups.pause", "groups.resume"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad, "fresh")  # noqa: E731
        yield Argument(f"{verb}(topic)", hand, TOPICS, "^topic ")
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)("news", bad)  # noqa: E731
        yield Argument(f"{verb}(group)", hand, NAMES, "^group ")
    yield Argument("topics.settings(name)", lambda hf, bad: hf.topics.settings(bad), TOPICS, "^name ")
    yield Argument("groups.list(topic)", lambda hf, bad: hf.groups.list(bad), TOPICS, "^topic ")
    yield Argument("claim(group=)", lambda hf, bad: hf.claim("news", group=bad), NAMES_OR_NONE, "^group ")
    yield Argument("subscribe(patterns=)", join("patterns"), PATTERNS, "pattern")
    yield Argument("subscribe(start=)", join("start"), STARTS, "^start |ids look like")
    for name in ("lease", "dead_retention", "max_time", "timeout"):
        yield length("subscribe", name, join(name), {**LENGTHS_OR_NONE, "no time": 0})
    for name in ("max_attempts", "concurrency", "max_repeats", "misses", "key_concurrency"):
        yield Argument(f"subscribe({name}=)", join(name), WHOLE, f"^{name} must be a whole number")
    yield Argument("subscribe(backoff=)", join("backoff"), {"negative": -1, "an empty list": []}, "^backoff")
    for name in ("rate", "key_rate", "catch_up_rate"):
        yield Argument(f"subscribe({name}=)", join(name), RATES, f"^{name} ")
    for name in ("budget", "message_budget"):
        yield Argument(f"subscribe({name}=)", join(name), AMOUNTS, f"^{name} must be a number above 0")
    yield Argument("subscribe(commitments=)", join("commitments"), {"twice": [PROMISE] * 2}, "^commitments")
    yield Argument("subscribe(requires=)", join("requires"), LABELS, "^requires must ")
    yield Argument("subscribe(empty=)", join("empty"), WORDS, "^empty must be one of")
    for name in ("dead_letter", "owner"):
        yield Argument(f"subscribe({name}=)", join(name), NAMES_OR_NONE, f"^{name} ")
    for name in ("ordering", "on_dead"):
        yield Argument(f"subscribe({name}=)", join(name), WORDS, f"^{name} must be one of")
    yield Argument("subscribe(history=)", join("history"), {"no setting of a group": 1}, "^subscribe\\(\\) has no")


def _of_places() -> Iterator[Argument]:
    yield Argument("groups.seek(group)", lambda hf, bad: hf.groups.seek(bad, "latest"), NAMES, "^group ")
    yield Argument("groups.seek(to)", lambda hf, bad: hf.groups.seek("fresh", bad), STARTS, "^to |ids look like")
    topics = {what: name for what, name in TOPICS.items() if name is not None}
    yield Argument(
        "groups.seek(topic=)", lambda hf, bad: hf.groups.seek("fresh", "latest", topic=bad), topics, "^topic "
    )
    yield Argument("groups.skip(topic)", lambda hf, bad: hf.groups.skip(bad, "fresh", NOBODY), TOPICS, "^topic ")
    yield Argument("groups.skip(group)", lambda hf, bad: hf.groups.skip("news", bad, NOBODY), NAMES, "^group ")
    yield Argument(
        "groups.skip(id)", lambda hf, bad: hf.groups.skip("news", "fresh", bad), {**IDS, "None": None}, ID_SAYS
    )


def _of_subscribers() -> Iterator[Argument]:
    def declare(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.subscriber(**{"topic": "news", "group": "fresh", name: bad})(lambda message: None)

    patterns = {what: bad for what, bad in PATTERNS.items() if isinstance(bad, str)}
    hand = lambda hf, bad: hf.subscriber(bad, topic="news", group="fresh")  # noqa: E731
    yield Argument("subscriber(patterns)", hand, patterns, "pattern")
    yield Argument(
        "subscriber()", lambda hf, bad: hf.subscriber(*bad, group="fresh"), {"nothing": ()}, "say what to get"
    )
    yield Argument("subscriber(group=)", declare("group"), NAMES, "^group ")
    topics = {what: name for what, name in TOPICS.items() if name is not None}
    yield Argument("subscriber(topic=)", declare("topic"), topics, "^topic ")
    yield Argument("subscriber(start=)", declare("start"), STARTS, "^start |ids look like")


BAD_TOPICS = [*_of_publish(), *_of_topic(), *_of_groups(), *_of_places()]
BAD_SUBSCRIBERS = list(_of_subscribers())

NOWHERE: dict[str, Bad] = {
    "subscribe(topic): nobody's": Bad(lambda hf: hf.subscribe("nowhere", "fresh"), "nowhere", UnknownTopic),
    "subscribe(topic): below one": Bad(lambda hf: hf.subscribe("news.a", "fresh"), "news.a", UnknownTopic),
    "subscribe(topic): a queue's": Bad(lambda hf: hf.subscribe("plain", "fresh"), "no topic", UnknownTopic),
    "subscribe(start=): nobody's": Bad(lambda hf: hf.subscribe("news", "fresh", start=NOBODY), "not in", NotFound),
    "seek(group): nobody's": Bad(lambda hf: hf.groups.seek("fresh", "latest"), "fresh", UnknownGroup),
    "skip(group): nobody's": Bad(lambda hf: hf.groups.skip("news", "fresh", NOBODY), "fresh", UnknownGroup),
    "claim(group=): nobody's": Bad(lambda hf: hf.claim("news", group="fresh"), "subscribe", UnknownGroup),
    "stats(queue): nobody's group": Bad(lambda hf: hf.stats("news/fresh"), "subscribe", UnknownGroup),
    "heartbeat(group): nobody's": Bad(lambda hf: hf.groups.heartbeat("news", "fresh"), "subscribe", UnknownGroup),
    "accept_loss(group): nobody's": Bad(lambda hf: hf.groups.accept_loss("news", "fresh"), "subscribe", UnknownGroup),
    "enqueue(queue): a topic's": Bad(lambda hf: hf.enqueue("news", 1), "hf.publish"),
    "enqueue(queue): below a topic": Bad(lambda hf: hf.enqueue("news.a", 1), "hf.publish"),
    "claim(queue): a topic": Bad(lambda hf: hf.claim("news"), "is a topic"),
    "topic(name): below another": Bad(lambda hf: hf.topic("news.a"), "belongs to the topic"),
    "topic(name), a queue's: itself": Bad(lambda hf: hf.topic("plain"), "is a queue"),
    "queue(name): a topic's": Bad(lambda hf: hf.queue("news"), "is a topic"),
}
