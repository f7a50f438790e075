"""Escalation: a failure has a notice, a notice has an owner, and an owner who does not answer has an owner."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import msgspec

from holdfast.core.dead_letter import ErrorText, shortened, trouble_of
from holdfast.core.duration import Duration, seconds
from holdfast.core.message import encode_json
from holdfast.core.queue import INBOX, channel_name, owner_name
from holdfast.core.times import Moment, MomentOrNone, WithTimes, text_of
from holdfast.errors import InvalidInput, shown

NOTIFY = ("each", "digest")

MOST_LEVELS = 20
"""So often a notice climbs at most, whatever circle its owners form."""

DIGEST_LINES = 100
ERROR_SHOWN = 500

DEAD_LETTER = "dead_letter"
_KIND = re.compile(r"[a-z][a-z0-9_]{0,49}")


class OwnerSpec(msgspec.Struct, frozen=True):
    """Who answers for dead letters, as stored. Durations in seconds."""

    inbox: str
    owner: str | None = None
    escalate_after: float | None = 900.0
    notify: str = "each"
    digest_every: float = 3600.0


class Notice(WithTimes, msgspec.Struct, frozen=True):
    """Someone has to look at a dead letter, or at what was reported: whom it waits for, for how long, and who answered.

    `kind` is "dead_letter", or what `hf.notices.report` was given. Then `about` names what the trouble is with,
    `repeats` says how often it was reported again before anyone answered, and there is no `dead_id`, no
    `message_id` and perhaps no `queue`. `owner` is None where there is none. `level` is 0 for the first owner, one
    more for each climb; `climbs_at` is when the next one happens. Times are datetimes in UTC, the database's clock.
    `error` begins with one sentence; `traceback` is that of an exception.
    """

    id: str
    queue: str | None
    owner: str | None
    level: int
    dead_id: str | None
    message_id: str | None
    error: str
    attempts: int
    created_at_us: int
    climbs_at_us: int | None = None
    acknowledged_at_us: int | None = None
    acknowledged_by: str | None = None
    remark: str | None = None
    kind: str = DEAD_LETTER
    about: str | None = None
    repeats: int = 0
    traceback: str | None = None

    created_at = Moment()
    climbs_at = MomentOrNone()
    acknowledged_at = MomentOrNone()


def owner_spec(
    name: str,
    inbox: str | None,
    owner: str | None,
    escalate_after: Duration | None,
    notify: str,
    digest_every: Duration,
) -> OwnerSpec:
    """Checks what a user wrote in `hf.owner(name, …)`."""
    if owner is not None and owner_name(owner, "owner") == owner_name(name):
        raise InvalidInput(f"the owner {name!r} cannot be its own owner: a notice could never climb")
    if notify not in NOTIFY:
        raise InvalidInput(f"notify must be one of {', '.join(NOTIFY)}, not {shown(notify)}")
    return OwnerSpec(
        default_inbox(name) if inbox is None else channel_name(inbox, "inbox"),
        owner,
        None if escalate_after is None else seconds(escalate_after, "escalate_after"),
        notify,
        seconds(digest_every, "digest_every"),
    )


def default_inbox(name: str) -> str:
    """The queue that an owner reads unless told otherwise."""
    return owner_name(name) + INBOX


def reported_kind(kind: str) -> str:
    """Checks what a user says a report is of."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise InvalidInput(
            "kind must be a word such as crash_loop: at most 50 small letters, digits and underscores, "
            f"not {shown(kind)}"
        )
    if kind == DEAD_LETTER:
        raise InvalidInput("kind dead_letter is for notices of deaths, which come by themselves; use another word")
    return kind


def reported(error: object) -> ErrorText:
    """What is kept of it: of a very long one the beginning, which says what happened, and the end, which says why."""
    trouble = trouble_of(error)
    return ErrorText(shortened(trouble.error, ERROR_SHOWN), trouble.traceback)


def notice_body(notice: Notice, climbed_from: str | None) -> bytes:
    """What the inbox gets for a notice of its own."""
    more = {"traceback": notice.traceback, "owner": notice.owner, "climbed_from": climbed_from}
    return encode_json({"kind": "notice", **_line(notice), **more})


def digest_body(owner: str, notices: list[Notice]) -> bytes:
    """What the inbox gets for many: how many of which kind and queue, and the first hundred of them."""
    counts = {
        "kinds": Counter(notice.kind for notice in notices),
        "queues": Counter(notice.queue for notice in notices if notice.queue is not None),
    }
    lines = [_line(notice) for notice in notices[:DIGEST_LINES]]
    return encode_json({"kind": "digest", "owner": owner, "count": len(notices), **counts, "notices": lines})


def _line(notice: Notice) -> dict[str, Any]:
    return {
        "id": notice.id,
        "notice_kind": notice.kind,
        "about": notice.about,
        "queue": notice.queue,
        "level": notice.level,
        "dead_id": notice.dead_id,
        "message_id": notice.message_id,
        "error": shortened(notice.error, ERROR_SHOWN),
        "attempts": notice.attempts,
        "repeats": notice.repeats,
        "created_at": text_of(notice.created_at_us),
    }
