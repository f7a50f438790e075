"""One run finds every mistake of a spec: all that there are, and nothing that only follows from another."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.spec.check import check, check_reading
from holdfast.spec.files import examine
from holdfast.spec.model import from_json
from holdfast.spec.reading import read_text
from holdfast.spec.writing import to_text

SOUND: dict[str, Any] = {
    "app": "shop",
    "owners": {"mia": {"inbox": "letters", "escalate_after": 60, "notify": "digest", "digest_every": 60}},
    "queues": {
        "letters": {},
        "orders": {
            "message_type": {"id": "int", "city": "string"},
            "retention": {"max_age_seconds": 60, "max_depth": 5, "history": 5, "history_limit": 5},
            "delivery": {
                "max_attempts": 3,
                "initial_backoff_ms": 1,
                "max_backoff_ms": 5,
                "jitter": 0.5,
                "lease": 5,
                "dead_letter_queue": "letters",
            },
            "limits": {"concurrency": 5, "rate": "5/s", "max_repeats": 5},
            "owner": "mia",
            "requires": {"tier": "a", "zone": "b"},
            "commitments": [{"name": "a", "check": "true"}, {"name": "b", "check": "true"}],
        },
    },
    "topics": {
        "news": {
            "retention": 60,
            "min_retention": 5,
            "max_size": 500,
            "idempotency_window": 5,
            "groups": {"mail": {"patterns": ["news.a", "news.b"], "start": "latest", "misses": 3, "timeout": 5}},
        }
    },
    "webhooks": {"hook": {"queue": "letters", "allow_ips": ["192.0.2.1", "192.0.2.2"], "max_size": 500}},
    "consumers": {
        "reader": {
            "queues": ["orders", "letters"],
            "handler": "m:f",
            "policy": "weighted",
            "weights": {"orders": 2, "letters": 1},
            "concurrency": 2,
            "lease": 5,
            "timeout": 5,
            "labels": {"tier": "a", "zone": "b"},
        }
    },
    "pools": {
        "reader": {
            "min": 1,
            "max": 2,
            "scale_up_depth": 5,
            "scale_down_depth": 1,
            "scale_up_age": 5,
            "cooldown": 5,
            "max_crashes": 5,
            "crash_window": 5,
        }
    },
    "schedules": {
        "nightly": {"queue": "letters", "cron": "0 0 * * *", "tz": "UTC", "key": "k"},
        "hourly": {"queue": "letters", "every": 60, "tz": "UTC"},
    },
    "sagas": {
        "trip": {
            "data": {"city": "string"},
            "keep": 60,
            "steps": [
                {"name": "send", "queue": "letters", "timeout": 5, "retry": 1, "max_backoff_ms": 5},
                {"name": "answer", "event": "paid", "timeout": 5},
                {"name": "pause", "wait": 5},
            ],
        }
    },
}
BAD: dict[str, Any] = {
    "owners.mia.inbox": "a/b",
    "owners.mia.escalate_after": -1,
    "owners.mia.digest_every": -1,
    "queues.orders.message_type.id": "imt",
    "queues.orders.retention.max_age_seconds": -1,
    "queues.orders.retention.max_depth": 0,
    "queues.orders.retention.history": -1,
    "queues.orders.retention.history_limit": -1,
    "queues.orders.delivery.max_attempts": 0,
    "queues.orders.delivery.initial_backoff_ms": -1,
    "queues.orders.delivery.max_backoff_ms": -1,
    "queues.orders.delivery.jitter": 2,
    "queues.orders.delivery.lease": 0,
    "queues.orders.delivery.dead_letter_queue": "nowhere",
    "queues.orders.limits.concurrency": 0,
    "queues.orders.limits.rate": "0/s",
    "queues.orders.limits.max_repeats": 1,
    "queues.orders.requires.tier": "",
    "queues.orders.requires.zone": "",
    "queues.orders.commitments[0]": {"name": "a", "check": "true", "timeout": -1},
    "queues.orders.commitments[1]": {"name": "b", "check": "true", "timeout": -1},
    "topics.news.retention": -1,
    "topics.news.min_retention": -1,
    "topics.news.max_size": 0,
    "topics.news.idempotency_window": -1,
    "topics.news.groups.mail.patterns[0]": "other.a",
    "topics.news.groups.mail.patterns[1]": "other.b",
    "topics.news.groups.mail.start": "yesterday",
    "topics.news.groups.mail.misses": 0,
    "topics.news.groups.mail.timeout": 0,
    "webhooks.hook.allow_ips[0]": "here",
    "webhooks.hook.allow_ips[1]": "there",
    "webhooks.hook.max_size": 0,
    "consumers.reader.weights.orders": 0,
    "consumers.reader.weights.letters": -1,
    "consumers.reader.concurrency": 0,
    "consumers.reader.lease": 0,
    "consumers.reader.timeout": 0,
    "consumers.reader.labels.tier": "",
    "consumers.reader.labels.zone": "",
    "pools.reader.min": -1,
    "pools.reader.max": 0,
    "pools.reader.scale_up_depth": 0,
    "pools.reader.scale_down_depth": -1,
    "pools.reader.scale_up_age": -1,
    "pools.reader.cooldown": -1,
    "pools.reader.max_crashes": 0,
    "pools.reader.crash_window": -1,
    "schedules.nightly.queue": "nowhere",
    "schedules.nightly.cron": "x",
    "schedules.nightly.tz": "Mars/Phobos",
    "schedules.nightly.key": "\u0000",
    "schedules.hourly.every": 0,
    "schedules.hourly.tz": "Mars/Deimos",
    "sagas.trip.data.city": "strimg",
    "sagas.trip.keep": -1,
    "sagas.trip.steps[0].queue": "nowhere",
    "sagas.trip.steps[0].timeout": 0,
    "sagas.trip.steps[0].retry": -1,
    "sagas.trip.steps[0].max_backoff_ms": -1,
    "sagas.trip.steps[1].event": "a/b",
    "sagas.trip.steps[1].timeout": 0,
    "sagas.trip.steps[2].wait": -1,
}


def steps_of(path: str) -> list[str | int]:
    return [int(one) if one.isdigit() else one for one in path.replace("[", ".").replace("]", "").split(".")]


def broken(*paths: str, values: dict[str, Any] = BAD) -> dict[str, Any]:
    """The sound spec, but for these."""
    spec = copy.deepcopy(SOUND)
    for path in paths:
        *outer, last = steps_of(path)
        inside: Any = spec
        for one in outer:
            inside = inside[one]
        inside[last] = values[path]
    return spec


def found_in_json(spec: Any, tmp_path: Path) -> list[str]:
    file = tmp_path / "app.json"
    file.write_text(json.dumps(spec))
    return sorted(one.path for one in examine(str(file)).findings)


def test_the_sound_one_is_sound(tmp_path: Path) -> None:
    assert found_in_json(SOUND, tmp_path) == []


@pytest.mark.parametrize("path", BAD)
def test_a_bad_value_is_one_mistake(path: str) -> None:
    assert [one.path for one in check(from_json(json.dumps(broken(path))))] == [path]


def test_bad_values_are_all_found_in_one_run(tmp_path: Path) -> None:
    assert found_in_json(broken(*BAD), tmp_path) == sorted(BAD)


def test_bad_values_are_all_found_in_a_text_where_they_stand() -> None:
    # What a text cannot even say is refused while it is read.
    refused = (-1, "imt", "strimg", "0/s")
    said = {path: value for path, value in BAD.items() if value not in refused and "commit" not in path}
    reading = read_text(to_text(from_json(json.dumps(broken(*said)))))
    found = check_reading(reading)
    assert {one.path for one in found} == set(said)
    assert all(one.span is not None for one in found)


def test_what_two_settings_say_together_is_found_beside_the_rest() -> None:
    spec = broken("pools.reader.cooldown", "topics.news.max_size", "consumers.reader.lease")
    spec["pools"]["reader"].update(min=3, max=2, scale_down_depth=9, scale_up_depth=8)
    spec["topics"]["news"].update(min_retention=9, retention=8)
    spec["consumers"]["reader"]["policy"] = "random"
    spec["schedules"]["nightly"].update(cron="x", every=0, tz="Mars/Phobos")
    assert sorted(one.path for one in check(from_json(json.dumps(spec)))) == [
        "consumers.reader.lease",
        "consumers.reader.weights",
        "pools.reader.cooldown",
        "pools.reader.min",
        "pools.reader.scale_down_depth",
        "schedules.nightly.cron",
        "schedules.nightly.cron",
        "schedules.nightly.every",
        "schedules.nightly.tz",
        "topics.news.max_size",
        "topics.news.min_retention",
    ]


TEXT = """app shop {
  queue letters {}
  queue graves {}
  <named>
  queue orders {
    message_type {
      <field>
      city: string
    }
    <ordering>
    delivery {
      <attempts>
      <lease>
      <backoff>
    }
    map_to: command Order.Place {
      <input>
      city: city
    }
    limits { <rate> }
  }
  queue parcels {
    message_type { number: int, place: string }
    <next>
      <onward>
      city: place
    }
  }
  <second>
  webhook hook {
    <target>
    <addresses>
  }
  webhook other {
    routing: payload.big ? "letters" : "named"
    verify_hmac {
      <header>
      <secret>
    }
  }
  topic news {
    <retention>
    min_retention: 1m
    <group>
  }
  owner mia { <notify> }
  consumer reader {
    queues: [letters, named, second, news/mail]
    <handler>
    <concurrency>
  }
  pool reader {
    <most>
    min: 7
    <owner>
  }
  schedule nightly {
    <sends>
    <cron>
    <zone>
  }
  saga trip {
    data {
      <data>
      guests: int
    }
    <book>
      queue: letters
      input: { "city": data.city, "guests": data.guests }
      timeout: 5s
    }
    step wait {
      <event>
      <when>
    }
  }
}
"""
LINES = {
    "named": ["queue named {}", "queue named", "quee named {}", "queue named { ordering: sideways }"],
    "field": ["id: int", "id: imt", "id int", "id: enum()", "id: list<int"],
    "ordering": ["ordering: fifo", "ordering: sideways", "ordering fifo", "orderin: fifo", "ordering:"],
    "attempts": ["max_attempts: 3", "max_attempts: 0", "max_attempts 3", "max_attempts: x"],
    "lease": ["lease: 5s", "lease: 0", "lease 5s", "visibility_timeout: 5s"],
    "backoff": ["backoff: 1s..60s", "backoff: 60s..1s", "backoff 1s", "initial_backoff_ms: -1"],
    "input": ["id: id", "id id", "id: id +", "id: idd"],
    "next": ["map_to: queue orders {", "map_to: queue nowhere {", 'map_to: queue "a/b" {'],
    "onward": ["id: number", "id number", "id: number +", "id: numer"],
    "rate": ["rate: 5/s", "rate: 0/s", "rate 5/s", "concurrency: 0"],
    "second": [
        "queue second { delivery { dead_letter: graves } }",
        "queue second { delivery { dead_letter: nowhere } }",
        "queue second { delivery { dead_letter graves } }",
        "queue second { delivery { lease: 0, dead_letter: 7 } }",
        "queue letters { delivery { lease: 0 } } queue second {}",
    ],
    "target": ["queue: letters", "queue: nowhere", "queue letters", "queue: 7", "queue: $", ""],
    "addresses": ['allow_ips: ["192.0.2.1"]', 'allow_ips: [7, "here"]', "allow_ips x", "max_size: 0"],
    "header": ['header: "X-Signature"', 'header: "a b"', 'header "X"', "header: 7", ""],
    "secret": ['secret_env: "SECRET"', 'secret_env: "a b"', "secret_env SECRET", 'secret: "x"', ""],
    "retention": ["retention: 1h", "retention: 1s", "retention 1h", "retention: soon"],
    "group": [
        'group mail { patterns: ["news.a"] }',
        'group mail { patterns: ["x.a", "y.a"] }',
        "group mail { misses: 0, start: yesterday }",
        "group mail",
        "group other {}",
    ],
    "notify": ["notify: digest", "notify: sometimes", "notify digest"],
    "handler": ['handler: "m:f"', 'handler "m:f"', "handler: 7"],
    "concurrency": ["concurrency: 1", "concurrency: 0", "concurrency: many", "concurrency 1"],
    "most": ["max: 9", "max: 0", "max: 5", "max: many", "max 9"],
    "owner": ["owner: mia", 'owner: "a/b"', "owner mia"],
    "sends": ["queue: letters", "queue: nowhere", "queue letters", ""],
    "cron": ['cron: "0 0 * * *"', 'cron: "x"', 'cron "x"', "every: 0", ""],
    "zone": ['tz: "UTC"', 'tz: "Mars"', 'tz "UTC"'],
    "data": ["city: string", "city: strimg", "city string", "town: string"],
    "book": ["step book {", "step {", "step book { retry: -1"],
    "event": ['event: "paid"', 'event: "a/b"', "event paid", "wait: -1s", ""],
    "when": ["when: steps.book.ok == true", "when: steps.book ==", "when: step.book", "when steps.book"],
}
MISTAKES = [(name, wrong) for name, lines in LINES.items() for wrong in range(1, len(lines))]


MORE = {
    "queue second { delivery { lease: 0, dead_letter: 7 } }": 2,
    "queue letters { delivery { lease: 0 } } queue second {}": 2,
    'allow_ips: [7, "here"]': 2,
    "max_size: 0": 2,
    'group mail { patterns: ["x.a", "y.a"] }': 2,
    "group mail { misses: 0, start: yesterday }": 2,
}
"""Lines with several mistakes."""


def text_of(wrong: dict[str, int]) -> str:
    text = TEXT
    for name, lines in LINES.items():
        text = text.replace(f"<{name}>", lines[wrong.get(name, 0)])
    return text


def found_in_text(wrong: dict[str, int]) -> set[tuple[str, str]]:
    return {
        (one.path, re.sub(r" of line \d+", "", f"{one.severity} {one.message}"))
        for one in check_reading(read_text(text_of(wrong)))
    }


def test_the_sound_text_is_sound() -> None:
    assert found_in_text({}) == set()


@pytest.mark.parametrize(("name", "wrong"), MISTAKES, ids=[f"{name}-{wrong}" for name, wrong in MISTAKES])
def test_a_mistake_in_a_text_has_no_consequences(name: str, wrong: int) -> None:
    line, found = LINES[name][wrong], found_in_text({name: wrong})
    assert len({path for path, _ in found}) == MORE.get(line, 1), found


@pytest.mark.parametrize("number", range(1, 6))
def test_mistakes_in_a_text_are_found_as_if_each_were_alone(number: int) -> None:
    wrong = {name: min(number, len(lines) - 1) for name, lines in LINES.items()}
    each = [found_in_text({name: number}) for name, number in wrong.items()]
    assert found_in_text(wrong) == set[tuple[str, str]]().union(*each)


REFUSED: dict[str, Any] = {
    "owners.mia": 7,
    "queues.orders.message_type.id": 7,
    "queues.orders.delivery.lease": "soon",
    "queues.orders.limits": [],
    "queues.orders.requires.tier": 7,
    "queues.orders.commitments[0]": 7,
    "topics.news.retention": "soon",
    "topics.news.groups.mail.patterns[0]": 7,
    "webhooks.hook.queue": 7,
    "webhooks.hook.allow_ips[0]": 7,
    "consumers.reader.queues[0]": 7,
    "consumers.reader.handler": 7,
    "consumers.reader.policy": "sideways",
    "pools.reader.max": "many",
    "schedules.nightly.queue": 7,
    "schedules.hourly.every": "soon",
    "sagas.trip.data.city": 7,
    "sagas.trip.steps[0]": 7,
    "sagas.trip.steps[1].event": 7,
}
BESIDE = ("queues.orders.commitments[1]", "topics.news.groups.mail.patterns[1]", "webhooks.hook.allow_ips[1]")
BESIDE += ("consumers.reader.concurrency", "schedules.nightly.cron", "schedules.hourly.tz", "sagas.trip.steps[2].wait")


@pytest.mark.parametrize("path", REFUSED)
def test_what_json_cannot_mean_has_no_consequences(path: str, tmp_path: Path) -> None:
    assert found_in_json(broken(path, values=REFUSED), tmp_path) == [path]


def test_what_json_cannot_mean_hides_nothing_and_moves_nothing(tmp_path: Path) -> None:
    spec = broken(*REFUSED, *BESIDE, values={**BAD, **REFUSED})
    assert found_in_json(spec, tmp_path) == sorted([*REFUSED, *BESIDE])


def test_a_part_that_lacks_something_is_looked_at_all_the_same(tmp_path: Path) -> None:
    spec = broken("schedules.nightly.cron", "sagas.trip.steps[0].timeout")
    del spec["schedules"]["nightly"]["queue"], spec["sagas"]["trip"]["steps"][0]["name"]
    lacking = ["sagas.trip.steps[0]", "schedules.nightly"]
    wrong = ["sagas.trip.steps[0].timeout", "schedules.nightly.cron"]
    assert found_in_json(spec, tmp_path) == sorted([*lacking, *wrong])
    assert {path for path, _ in found_in_text({"sends": 3, "cron": 1})} == {
        "schedules.nightly",
        "schedules.nightly.cron",
    }


def test_a_file_without_an_app_or_with_a_block_outside_is_looked_at_too() -> None:
    found = [one.message for one in check_reading(read_text("queue a { delivery { lease: 0 } }"))]
    assert found == ["'queue' stands outside of the app", "lease must be at least a microsecond"]
    found = [one.message for one in check_reading(read_text("queue a { delivery { lease: 0 } }\napp A { pool a {} }"))]
    assert found[:2] == ["'queue' stands outside of the app", "lease must be at least a microsecond"]


def test_members_of_one_name_are_found_where_they_are(tmp_path: Path) -> None:
    file = tmp_path / "app.json"
    file.write_text('{"app": "a", "queues": {"q": {"ordering": "fifo", "ordering": "fifo"}}}')
    assert [one.path for one in examine(str(file)).findings] == ["queues.q"]
