"""I23: what a user may hand over by mistake, for every argument of every method. One list for all stores.

Each must be refused with an error of Holdfast's own that names what is wrong, or says what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast import Backoff, Holdfast, NotFound
from tests.client_names import method_of
from tests.model.bad_commands import BAD_RUNS
from tests.model.bad_sagas import BAD_SAGAS
from tests.model.bad_topics import BAD_TOPICS
from tests.model.mistakes import (
    AMOUNTS,
    CLAIMS,
    CONNS,
    COUNT_SAYS,
    COUNTS,
    ENDLESS,
    HEADERS,
    ID_SAYS,
    IDS,
    JSON_SAYS,
    LABELS,
    LENGTHS,
    LENGTHS_OR_NONE,
    MANY_DIGITS,
    MOMENTS_OR_NONE,
    NAME_SAYS,
    NAMES,
    NAMES_OR_NONE,
    NAN,
    NOBODY,
    ODD,
    PROMISE,
    RATES,
    READERS,
    READERS_OR_NONE,
    RECORDS_OR_NONE,
    TEXT_SAYS,
    TEXTS,
    VALUES,
    WHOLE,
    WORDS,
    Argument,
    Bad,
    Values,
    cases,
    length,
    named,
)


def _of_enqueue() -> Iterator[Argument]:
    """Both methods take the same options."""
    for method, body in (("enqueue", 1), ("enqueue_many", [1, 2])):

        def put(hf: Holdfast, method: str = method, body: Any = body, queue: Any = "plain", **options: Any) -> object:
            return getattr(hf, method)(queue, body, **options)

        yield Argument(f"{method}(queue)", lambda hf, bad, put=put: put(hf, queue=bad), NAMES, NAME_SAYS)
        for name in ("key", "correlation_id", "reply_to"):
            hand = lambda hf, bad, put=put, name=name: put(hf, queue="keyed", **{name: bad})  # noqa: E731
            yield Argument(f"{method}({name}=)", hand, TEXTS, named(name, TEXT_SAYS))
        yield length(method, "delay", lambda hf, bad, put=put: put(hf, delay=bad))
        yield length(method, "ttl", lambda hf, bad, put=put: put(hf, ttl=bad), {**LENGTHS_OR_NONE, "no time": 0})
        yield length(method, "ttl", lambda hf, bad, put=put: put(hf, delay=60, ttl=bad), {"below the delay": 60})
        yield Argument(
            f"{method}(headers=)",
            lambda hf, bad, put=put: put(hf, headers=bad),
            HEADERS,
            named("headers", JSON_SAYS + "|must be"),
        )
        levels = {"4": 4, "-1": -1, "a fraction": 1.0, "True": True, "a word": "soon", "None": None, "a list": []}
        yield Argument(f"{method}(priority=)", lambda hf, bad, put=put: put(hf, priority=bad), levels, "^priority must")
        promises = {
            "text": "x",
            "no name": [{"check": "true"}],
            "no check": [{"name": "a"}],
            "too many": [PROMISE] * 21,
        }
        hand = lambda hf, bad, put=put: put(hf, commitments=bad)  # noqa: E731
        yield Argument(f"{method}(commitments=)", hand, promises, "^commitments")
        yield Argument(f"{method}(budget=)", lambda hf, bad, put=put: put(hf, budget=bad), AMOUNTS, "^budget must be")
        hand = lambda hf, bad, put=put: put(hf, headers={"holdfast-budget": bad})  # noqa: E731
        yield Argument(f"{method}(headers=), a budget among them", hand, AMOUNTS, "^holdfast-budget must be a number")
        yield Argument(f"{method}(conn=)", lambda hf, bad, put=put: put(hf, conn=bad), CONNS, "^conn= on .* takes")


def _bodies() -> Iterator[Argument]:
    yield Argument("enqueue(body)", lambda hf, bad: hf.enqueue("plain", bad), VALUES, named("body", JSON_SAYS))
    yield Argument(
        "enqueue_many(bodies), one of three",
        lambda hf, bad: hf.enqueue_many("plain", [1, bad, 3]),
        VALUES,
        named("body", JSON_SAYS),
    )
    yield Argument(
        "enqueue_many(bodies), the last of a thousand rows",
        lambda hf, bad: hf.enqueue_many("plain", [*range(1000), bad], delay=1, idempotency_key=str),
        {"NaN": NAN},
        named("body", JSON_SAYS),
    )
    yield Argument(
        "enqueue_many(bodies)",
        lambda hf, bad: hf.enqueue_many("plain", bad),
        {"None": None, "a number": 7},
        "^bodies must",
    )
    yield Argument(
        "enqueue_many(key=function)",
        lambda hf, bad: hf.enqueue_many("keyed", [1, 2], key=lambda body: bad if body == 2 else "k"),
        TEXTS,
        named("key", TEXT_SAYS),
    )
    yield Argument(
        "enqueue(idempotency_key=)",
        lambda hf, bad: hf.enqueue("plain", 1, idempotency_key=bad),
        TEXTS,
        named("idempotency_key", TEXT_SAYS),
    )
    yield Argument(
        "enqueue_many(idempotency_key=function)",
        lambda hf, bad: hf.enqueue_many("plain", [1, 2], idempotency_key=lambda body: bad if body == 2 else "k"),
        TEXTS,
        named("idempotency_key", TEXT_SAYS),
    )
    yield Argument(
        "enqueue_many(idempotency_key=)",
        lambda hf, bad: hf.enqueue_many("plain", [1, 2], idempotency_key=bad),
        {"one for all": "k", "a number": 7},
        "needs a function .* idempotency_key=lambda body",
    )


def _of_ask() -> Iterator[Argument]:
    def ask(queue: Any = "plain", body: Any = 1, **options: Any) -> Callable[[Holdfast], object]:
        return lambda hf: hf.ask(queue, body, **{"timeout": 0.01, **options})

    yield Argument("ask(queue)", lambda hf, bad: ask(bad)(hf), NAMES, NAME_SAYS)
    yield Argument("ask(body)", lambda hf, bad: ask(body=bad)(hf), VALUES, named("body", JSON_SAYS))
    yield length("ask", "timeout", lambda hf, bad: ask(timeout=bad)(hf), {**LENGTHS, "no time": 0})
    levels = {"4": 4, "a word": "soon", "None": None}
    yield Argument("ask(priority=)", lambda hf, bad: ask(priority=bad)(hf), levels, "^priority must")
    yield Argument("ask(key=)", lambda hf, bad: ask("keyed", key=bad)(hf), TEXTS, named("key", TEXT_SAYS))
    hand = lambda hf, bad: ask(headers=bad)(hf)  # noqa: E731
    yield Argument("ask(headers=)", hand, HEADERS, named("headers", JSON_SAYS + "|must be"))
    words = {"None": None, "a number": 1, "text": "no"}
    yield Argument("ask(expires=)", lambda hf, bad: ask(expires=bad)(hf), words, "^expires must be True or False")


def _of_queue() -> Iterator[Argument]:
    def declare(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.queue("plain", message_type=int, **{name: bad})

    yield Argument("queue(name)", lambda hf, bad: hf.queue(bad), NAMES, NAME_SAYS)
    yield Argument("queues.settings(name)", lambda hf, bad: hf.queues.settings(bad), READERS, NAME_SAYS)
    for name in ("lease", "history", "idempotency_window"):
        yield length("queue", name, declare(name))
    for name in ("max_age", "dead_retention", "max_time"):
        yield length("queue", name, declare(name), {**LENGTHS_OR_NONE, "no time": 0})
    yield length("queue", "lease", declare("lease"), {"no time": 0, "less than a microsecond": 1e-9})
    for name in ("max_attempts", "max_size", "max_depth"):
        yield Argument(f"queue({name}=)", declare(name), WHOLE, f"^{name} must be a whole number")
    whole_or_none = {what: value for what, value in WHOLE.items() if value != 0}
    yield Argument("queue(history_limit=)", declare("history_limit"), whole_or_none, "^history_limit must be a whole")
    for name in ("concurrency", "key_concurrency", "max_repeats"):
        yield Argument(f"queue({name}=)", declare(name), WHOLE, f"^{name} must be a whole number")
    for name in ("rate", "key_rate"):
        yield Argument(f"queue({name}=)", declare(name), RATES, f"^{name} ")
    for name in ("budget", "message_budget"):
        yield Argument(f"queue({name}=)", declare(name), AMOUNTS, f"^{name} must be a number above 0")
    promises = {"text": "x", "no check": [{"name": "a"}], "twice": [PROMISE] * 2, "a number": [{**PROMISE, "check": 7}]}
    yield Argument("queue(commitments=)", declare("commitments"), promises, "^commitments")
    yield Argument("queue(requires=)", declare("requires"), LABELS, "^requires must ")
    for name in ("ordering", "on_dead", "empty", "delivery"):
        yield Argument(f"queue({name}=)", declare(name), WORDS, f"^{name} must be one of")
    through_sqs = lambda name: lambda hf, bad: hf.queue("plain", delivery="sqs", **{name: bad})  # noqa: E731
    names = {"a number": 7, "nothing": "", "spaces": "a b", "dots": "a.b", "too long": "x" * 81, "a list": ["q"]}
    urls = {"another scheme": "ftp://host/q", "no host": "https:///q", "a password": "https://user:secret@host/1/q"}
    for name in ("sqs_queue", "dead_events"):
        yield Argument(f"queue({name}=)", through_sqs(name), {**names, **urls}, f"^{name} must be the name of an SQS")
    yield length("queue", "sqs_fallback", through_sqs("sqs_fallback"), {**LENGTHS_OR_NONE, "no time": 0})
    yield Argument("queue(sqs_queue=)", declare("sqs_queue"), {"of the database": "q"}, 'with delivery="sqs"')
    for name in ("dead_letter", "owner"):
        yield Argument(f"queue({name}=)", declare(name), NAMES_OR_NONE, f"^{name} ")
    yield Argument("queue(owner=)", declare("owner"), {"too long for an inbox": "x" * 195}, "^owner .* at most 194")
    backoffs = {
        **LENGTHS_OR_NONE,
        "an empty list": [],
        "a list with a word": [1, "soon"],
        "a list as step": [[1]],
        "backwards": "9s..1s",
        "half a range": "1s..",
        "words": "a..b",
    }
    del backoffs["a list"]
    yield Argument("queue(backoff=)", declare("backoff"), backoffs, "^backoff")
    types = {"text": "int", "a number": 7, "an object": object()}
    yield Argument("queue(message_type=)", lambda hf, bad: hf.queue("plain", message_type=bad), types, "^message_type")
    yield Argument("queue(dead_letter=)", declare("dead_letter"), {"itself": "plain"}, "its own dead_letter queue")
    steps: Values = {"text": {"initial": "5s"}, "jitter": {"jitter": 2}, "jitter as text": {"jitter": "x"}}
    yield Argument("Backoff()", lambda hf, bad: hf.queue("plain", backoff=Backoff(**bad)), steps, "[bB]ackoff")


def _of_claims() -> Iterator[Argument]:
    yield Argument("claim(queue)", lambda hf, bad: hf.claim("plain", bad), READERS, NAME_SAYS)
    yield Argument("claim(n=)", lambda hf, bad: hf.claim("plain", n=bad), COUNTS, COUNT_SAYS)
    yield length("claim", "lease", lambda hf, bad: hf.claim("plain", lease=bad), {**LENGTHS_OR_NONE, "no time": 0})
    yield length("claim", "wait", lambda hf, bad: hf.claim("plain", wait=bad))
    yield Argument("claim()", lambda hf, bad: hf.claim(*bad), {"no queue": ()}, "needs the name of a queue")
    yield Argument("claim(ack=)", lambda hf, bad: hf.claim("plain", ack=bad), CLAIMS, "expected claims")
    for verb in ("ack", "nack", "release", "extend"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(claims)", hand, CLAIMS, "expected claims")
    yield Argument("snooze(claims)", lambda hf, bad: hf.snooze(bad, 1), CLAIMS, "expected claims")
    yield Argument("dead_letter(claims)", lambda hf, bad: hf.dead_letter(bad, "no"), CLAIMS, "expected claims")


def _of_operating() -> Iterator[Argument]:
    for verb in (
        "queues.sweep",
        "queues.pause",
        "queues.resume",
        "queues.is_paused",
        "stats",
        "queues.purge",
        "queues.peek",
        "queues.blocked",
        "queues.unblock",
        "queues.budget",
        "queues.reset_budget",
    ):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(queue)", hand, READERS, NAME_SAYS)
    for verb in (
        "status",
        "cancel",
        "messages.get",
        "messages.cancel",
        "dead_letters.replay",
        "messages.commitments",
        "dead_letters.get",
        "dead_letters.delete",
    ):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(id)", hand, {**IDS, "None": None}, ID_SAYS)
    for verb in ("queues.peek", "queues.blocked"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)("plain", bad)  # noqa: E731
        yield Argument(f"{verb}(n)", hand, COUNTS, COUNT_SAYS)
    for name in ("key", "correlation_id"):
        hand = lambda hf, bad, name=name: hf.messages.search(**{name: bad})  # noqa: E731
        yield Argument(f"messages.search({name}=)", hand, TEXTS, named(name, TEXT_SAYS))
    yield Argument("messages.search(queue)", lambda hf, bad: hf.messages.search(bad, key="k"), NAMES_OR_NONE, "^queue ")
    yield Argument(
        "messages.search(headers=)",
        lambda hf, bad: hf.messages.search(headers=bad),
        HEADERS,
        named("headers", JSON_SAYS + "|must be"),
    )
    yield Argument("messages.search(n=)", lambda hf, bad: hf.messages.search(key="k", n=bad), COUNTS, COUNT_SAYS)
    yield Argument("messages.search(after=)", lambda hf, bad: hf.messages.search(key="k", after=bad), IDS, ID_SAYS)
    yield Argument("messages.search()", lambda hf, bad: hf.messages.search(**bad), {"nothing": {}}, "needs a key")
    yield Argument(
        "queues.unblock(key)", lambda hf, bad: hf.queues.unblock("keyed", bad), TEXTS, named("key", TEXT_SAYS)
    )
    yield Argument(
        "dead_letters.replay(body=)",
        lambda hf, bad: hf.dead_letters.replay(NOBODY, body=bad),
        VALUES,
        named("body", JSON_SAYS),
    )
    yield Argument("acting_as(actor)", lambda hf, bad: hf.acting_as(bad), TEXTS, named("actor", TEXT_SAYS))
    yield Argument(
        "acting_as(tenant=)", lambda hf, bad: hf.acting_as(tenant=bad), NAMES_OR_NONE, named("tenant", NAME_SAYS)
    )
    yield Argument("audit.list(n)", lambda hf, bad: hf.audit.list(bad), COUNTS, COUNT_SAYS)
    yield Argument(
        "audit.list(before=)", lambda hf, bad: hf.audit.list(before=bad), RECORDS_OR_NONE, "^before must be the id"
    )


def _of_dead_letters() -> Iterator[Argument]:
    for verb in ("dead_letters.list", "dead_letters.count", "dead_letters.replay_many", "dead_letters.delete_many"):

        def find(name: str, verb: str = verb) -> Callable[[Holdfast, Any], object]:
            return lambda hf, bad: method_of(hf, verb)(**{name: bad})

        yield Argument(f"{verb}(queue)", find("queue"), READERS_OR_NONE, "^queue ")
        for name in ("error", "key"):
            yield Argument(f"{verb}({name}=)", find(name), TEXTS, named(name, TEXT_SAYS))
        for name in ("since", "before"):
            yield Argument(f"{verb}({name}=)", find(name), MOMENTS_OR_NONE, f"^{name} (must be|.*has no time zone)")
    yield Argument("dead_letters.list(n=)", lambda hf, bad: hf.dead_letters.list(n=bad), COUNTS, COUNT_SAYS)
    yield Argument("dead_letters.list(after=)", lambda hf, bad: hf.dead_letters.list(after=bad), IDS, ID_SAYS)
    rates = {"0": 0, "negative": -1, "infinite": ENDLESS, "NaN": NAN, "text": "5", "True": True, "tiny": 1e-300}
    rates |= {"beyond text": MANY_DIGITS}
    yield Argument(
        "dead_letters.replay_many(rate=)", lambda hf, bad: hf.dead_letters.replay_many(rate=bad), rates, "^rate must"
    )
    for verb in ("dead_letters.replay_many", "dead_letters.delete_many"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(progress=bad)  # noqa: E731
        yield Argument(f"{verb}(progress=)", hand, {"a number": 7, "text": "x"}, "^progress must")


def _of_owners() -> Iterator[Argument]:
    def declare(name: str) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.owner("team", **{name: bad})

    yield Argument("owner(name)", lambda hf, bad: hf.owner(bad), NAMES, NAME_SAYS)
    yield Argument("owner(inbox=)", declare("inbox"), NAMES_OR_NONE, "^inbox ")
    yield Argument("owner(owner=)", declare("owner"), NAMES_OR_NONE, "^owner ")
    yield Argument("owner(owner=)", declare("owner"), {"itself": "team"}, "its own owner")
    yield length("owner", "escalate_after", declare("escalate_after"), LENGTHS_OR_NONE)
    yield length("owner", "digest_every", declare("digest_every"))
    yield Argument("owner(notify=)", declare("notify"), WORDS, "^notify must be one of")
    kinds = {
        **ODD,
        "None": None,
        "nothing": "",
        "a death": "dead_letter",
        "spaces": "crash loop",
        "51 letters": "x" * 51,
    }
    errors = {"a number": 404, "None": None, "bytes": b"x"}
    yield Argument("notices.report(kind)", lambda hf, bad: hf.notices.report(bad, "pool", "boom"), kinds, "^kind ")
    yield Argument(
        "notices.report(about)", lambda hf, bad: hf.notices.report("crash_loop", bad, "boom"), NAMES, "^about "
    )
    yield Argument(
        "notices.report(error)", lambda hf, bad: hf.notices.report("crash_loop", "pool", bad), errors, "error must be"
    )
    for name, names in (("owner", NAMES_OR_NONE), ("queue", READERS_OR_NONE)):
        hand = lambda hf, bad, name=name: hf.notices.report("crash_loop", "pool", "boom", **{name: bad})  # noqa: E731
        yield Argument(f"notices.report({name}=)", hand, names, f"^{name} ")
    yield Argument("notices.list(owner)", lambda hf, bad: hf.notices.list(bad), TEXTS, named("owner", TEXT_SAYS))
    yield Argument("notices.list(queue=)", lambda hf, bad: hf.notices.list(queue=bad), READERS_OR_NONE, "^queue ")
    yield Argument("notices.list(n=)", lambda hf, bad: hf.notices.list(n=bad), COUNTS, COUNT_SAYS)
    yield Argument("notices.list(after=)", lambda hf, bad: hf.notices.list(after=bad), IDS, ID_SAYS)
    yield Argument(
        "notices.acknowledge(id)", lambda hf, bad: hf.notices.acknowledge(NOBODY, bad), {**IDS, "None": None}, ID_SAYS
    )
    yield Argument(
        "notices.acknowledge()", lambda hf, bad: hf.notices.acknowledge(*bad), {"no id": ()}, "needs the id of a notice"
    )
    yield Argument(
        "notices.acknowledge(remark=)",
        lambda hf, bad: hf.notices.acknowledge(NOBODY, remark=bad),
        TEXTS,
        named("remark", TEXT_SAYS),
    )
    yield Argument(
        "on_notice(callback)", lambda hf, bad: hf.on_notice(bad), {"None": None, "text": "x"}, "needs a function"
    )
    yield Argument("on_notice(owner=)", lambda hf, bad: hf.on_notice(print, bad), NAMES_OR_NONE, "^owner ")


def _of_schedules() -> Iterator[Argument]:
    def declare(name: str, **others: Any) -> Callable[[Holdfast, Any], object]:
        return lambda hf, bad: hf.schedule("s", **{"queue": "plain", "cron": "@daily", **others, name: bad})

    for verb in ("schedules.get", "schedules.remove", "schedules.pause", "schedules.resume", "schedules.run"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad)  # noqa: E731
        yield Argument(f"{verb}(name)", hand, NAMES, NAME_SAYS)
    yield Argument("schedule(name)", lambda hf, bad: hf.schedule(bad, queue="plain", every=60), NAMES, NAME_SAYS)
    yield Argument("schedule(queue=)", declare("queue"), NAMES, "^queue ")
    yield Argument("schedule(body=)", declare("body"), VALUES, named("body", JSON_SAYS))
    lines = {**TEXTS, "nothing": "", "four fields": "* * * *", "February 30": "0 0 30 2 *", "minute 60": "60 * * * *"}
    lines |= {"seven fields": "* * * * * * *", "no period": "@every", "a period of nothing": "@every 0s"}
    yield Argument("schedule(cron=)", declare("cron"), lines, "^cron ")
    yield Argument("schedule(cron=)", declare("cron"), {"None": None}, "either cron=")
    yield Argument("schedule(every=)", declare("every"), {"beside cron": 60}, "either cron=")
    periods = {**LENGTHS_OR_NONE, "no time": 0, "less than a second": "999ms"}
    yield length("schedule", "every", declare("every", cron=None), periods)
    zones = {**TEXTS, "nothing": "", "None": None, "nowhere": "Mars/Olympus", "a path": "../../etc/passwd"}
    yield Argument("schedule(tz=)", declare("tz"), zones, "^tz .* is not a time zone")
    yield Argument("schedule(missed=)", declare("missed"), WORDS, "^missed must be one of")
    yield Argument(
        "schedule(priority=)", declare("priority"), {"4": 4, "a word": "soon", "None": None}, "^priority must"
    )
    yield Argument("schedule(key=)", declare("key"), TEXTS, named("key", TEXT_SAYS))
    yield Argument("schedule(headers=)", declare("headers"), HEADERS, named("headers", JSON_SAYS + "|must be"))


def _of_crew() -> Iterator[Argument]:
    for verb in ("consumers.attach", "consumers.detach"):
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)(bad, "plain")  # noqa: E731
        yield Argument(f"{verb}(consumer)", hand, NAMES, "^consumer ")
        hand = lambda hf, bad, verb=verb: method_of(hf, verb)("mailer", bad)  # noqa: E731
        yield Argument(f"{verb}(queue)", hand, READERS, "^queue ")
    shares = {
        "negative": -0.1,
        "above 1": 1.1,
        "NaN": NAN,
        "infinite": ENDLESS,
        "True": True,
        "text": "1",
        "None": None,
    }
    weights = {"0": 0, "negative": -1, "NaN": NAN, "infinite": ENDLESS, "True": True, "text": "5", "a list": [1]}
    weights |= {"beyond text": MANY_DIGITS}
    empties = {what: word for what, word in WORDS.items() if word is not None}
    attach = lambda hf, **how: hf.consumers.attach("mailer", "plain", **how)  # noqa: E731
    yield Argument(
        "consumers.attach(weight=)", lambda hf, bad: attach(hf, weight=bad), weights, "^weight must be a number"
    )
    yield Argument("consumers.attach(empty=)", lambda hf, bad: attach(hf, empty=bad), empties, "^empty must be one of")
    yield Argument(
        "consumers.attachments(consumer)", lambda hf, bad: hf.consumers.attachments(bad), NAMES_OR_NONE, "^consumer "
    )
    yield Argument(
        "consumers.amplification(threshold)",
        lambda hf, bad: hf.consumers.amplification(bad),
        shares,
        "^threshold must be",
    )


ARGUMENTS = [
    *_of_enqueue(),
    *_bodies(),
    *_of_ask(),
    *_of_queue(),
    *_of_claims(),
    *_of_operating(),
    *_of_dead_letters(),
    *_of_owners(),
    *_of_crew(),
    *_of_schedules(),
    *BAD_SAGAS,
    *BAD_TOPICS,
    *BAD_RUNS,
]
"""Of a client. All but `conn` can be refused before anything is asked of the database."""

ENDINGS = [
    Argument("ack(conn=)", lambda claim, bad: claim.ack(conn=bad), CONNS, "^conn= on .* takes"),
    Argument("ack(result=)", lambda claim, bad: claim.ack(bad), VALUES, named("result", JSON_SAYS)),
    Argument(
        "nack(error)",
        lambda claim, bad: claim.nack(bad),
        {"a number": 404, "None": None, "bytes": b"x"},
        "error must be",
    ),
    Argument(
        "dead_letter(error)",
        lambda claim, bad: claim.dead_letter(bad),
        {"a number": 404, "None": None},
        "error must be",
    ),
    length("nack", "delay", lambda claim, bad: claim.nack("no", delay=bad), LENGTHS_OR_NONE),
    length("nack", "delay", lambda claim, bad: claim.nack("no", delay=bad, permanent=True), LENGTHS_OR_NONE),
    length("snooze", "delay", lambda claim, bad: claim.snooze(bad)),
    length("extend", "duration", lambda claim, bad: claim.extend(bad), {**LENGTHS_OR_NONE, "no time": 0}),
]
"""Of a claim that is held."""

OPENING = [
    Argument("Holdfast(tenant=)", lambda url, bad: Holdfast(url, tenant=bad), NAMES, "^tenant "),
    Argument("Holdfast(delivery=)", lambda url, bad: Holdfast(url, delivery=bad), WORDS, "^delivery must be one of"),
    Argument(
        "Holdfast(sqs_prefix=)",
        lambda url, bad: Holdfast(url, sqs_prefix=bad),
        {"a number": 7, "dots": "a.b", "too long": "x" * 31, "nothing": None},
        "^sqs_prefix must be",
    ),
    Argument("Holdfast(worker=)", lambda url, bad: Holdfast(url, worker=bad), {**TEXTS, "nothing": ""}, "^worker "),
    Argument("Holdfast(actor=)", lambda url, bad: Holdfast(url, actor=bad), {**TEXTS, "nothing": ""}, "^actor "),
    length("Holdfast", "patience", lambda url, bad: Holdfast(url, patience=bad), {**LENGTHS, "no time": 0, "5s": "5s"}),
    length("Holdfast", "sweep_every", lambda url, bad: Holdfast(url, sweep_every=bad), {**LENGTHS, "5s": "5s"}),
    Argument(
        "Holdfast(clock=)", lambda url, bad: Holdfast(url, clock=bad), {"a number": 7, "text": "x"}, "^clock must"
    ),
]
"""Of the client's own settings."""


BAD_INPUT: dict[str, Bad] = {
    **{name: bad for argument in ARGUMENTS for name, bad in cases(argument).items()},
    "dead_letters.replay(id): nobody's": Bad(lambda hf: hf.dead_letters.replay(NOBODY), NOBODY, NotFound),
}
