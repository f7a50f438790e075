"""Dead letters: looking at them, giving them another life, removing them. Of one queue, or of all."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request, Response
from pydantic import Field

from holdfast.client.client import Holdfast
from holdfast.core.dead_letter import DeadLetterRecord
from holdfast.dead_letters.admin.bulk_work import Act, bulk_acts
from holdfast.dead_letters.client import KEPT
from holdfast.errors import NotFound
from holdfast.server.admin.body_preview import preview
from holdfast.server.admin.models import (
    LATEST,
    TEXT,
    After,
    Count,
    Done,
    DoneCount,
    DoneWithMessage,
    Id,
    Input,
    Json,
    Moment,
    Name,
    Output,
    ReaderName,
    Seconds,
    SecondsOrNone,
    Text,
    existing,
    existing_reader,
    refusals,
    seconds,
    seconds_or_none,
)
from holdfast.server.admin.roles import Administers, Operates, Reads

of_queue = APIRouter(prefix="/admin/queues/{name}/dlq", tags=["dead letters"])
of_all = APIRouter(prefix="/admin/dlq", tags=["dead letters"])


class DeadLetterView(Output):
    """A dead letter at a glance; `preview` is the beginning of its body."""

    id: str
    failed_at: int = Field(description="Seconds since 1970.")
    error: str
    attempts: int
    preview: Json


class DeadLetterList(Output):
    """Oldest first. The next page is `after` the last id."""

    dead_letters: list[DeadLetterView]


class OfQueue(DeadLetterView):
    """The same, with the queue or the group (topic/group) in which it died, and its replay."""

    queue: str
    replayed_as: str | None
    replay_state: str | None


class AllDeadLetters(Output):
    """Oldest first. The next page is `after` the last id."""

    dead_letters: list[OfQueue]


class Failed(Output):
    """An attempt that failed."""

    attempt: int
    worker: str
    error: str
    traceback: str | None
    claimed_at: SecondsOrNone
    at: Seconds


class Original(Output):
    """The message as it was enqueued."""

    id: str
    body: Json
    headers: dict[str, Json]
    priority: int
    key: str | None
    correlation_id: str | None
    reply_to: str | None
    topic: str | None
    enqueued_at: Seconds


class DeadLetterDetail(OfQueue):
    """All of it: the message, and every attempt that is remembered."""

    replays: int
    traceback: str | None
    message: Original
    history: list[Failed]


class Replay(Input):
    """With another body, if one is given."""

    body: Json = None


class Chosen(Input):
    """Which dead letters: all, or those with this text in their error, this key, this time of death."""

    error: str | None = Field(None, max_length=500, pattern=TEXT)
    key: str | None = Field(None, max_length=500, pattern=TEXT)
    since: float | None = Field(None, ge=0, le=LATEST, description="Seconds since 1970.")
    before: float | None = Field(None, ge=0, le=LATEST, description="Seconds since 1970.")

    def options(self) -> dict[str, Any]:
        """As the client takes them."""
        times = {"since": self.since, "before": self.before}
        return {"error": self.error, "key": self.key, **times}


class ChosenReplay(Chosen):
    """The same, and how many per second."""

    rate: float | None = Field(None, ge=1, le=1_000_000, description="Dead letters per second.")


class ChosenOfAll(Chosen):
    """The same, of one queue or group (topic/group) if it is given."""

    queue: str | None = Field(None, min_length=1, max_length=401, pattern=r"^[^\x00-\x1f\x7f]+$")


class ChosenReplayOfAll(ChosenReplay, ChosenOfAll):
    """The same, and how many per second."""


class Bulk(Done):
    """So many of `matching` were dealt with. While it is not `done` it goes on; the audit counts along."""

    done: bool
    count: int
    matching: int


GOES_ON: dict[int | str, dict[str, Any]] = {202: {"model": Bulk, "description": "It goes on; see the audit."}}
Which = Annotated[Replay | None, Body()]


@of_queue.get("", operation_id="list_dead_letters", responses=refusals())
def list_dead_letters(
    access: Reads,
    name: Name,
    n: Count = 100,
    after: After = None,
    error: Text = None,
    key: Text = None,
    since: Moment = None,
    before: Moment = None,
) -> DeadLetterList:
    """Dead letters of a queue, oldest first."""
    hf, name = access.client, existing(name)
    hf.queues.is_paused(name)  # An unknown queue is no empty one.
    found = hf.dead_letters.list(name, n=n, after=after, error=error, key=key, since=since, before=before)
    return DeadLetterList(dead_letters=[DeadLetterView(**_glance(letter)) for letter in found])


@of_queue.get("/{dead_id:uuid}", operation_id="get_dead_letter", responses=refusals())
def get_dead_letter(access: Reads, name: Name, dead_id: Id) -> DeadLetterDetail:
    """One of them, with every attempt."""
    return _detail(_find(access.client, str(dead_id), existing(name)))


@of_queue.post("/{dead_id:uuid}/replay", operation_id="replay_dead_letter", responses=refusals(409, body=True))
def replay_dead_letter(access: Operates, name: Name, dead_id: Id, which: Which = None) -> DoneWithMessage:
    """Another life as a new message; once per death."""
    _find(access.client, str(dead_id), existing(name))
    return _replay(access.client, str(dead_id), which)


@of_queue.delete("/{dead_id:uuid}", operation_id="delete_dead_letter", responses=refusals())
def delete_dead_letter(access: Administers, name: Name, dead_id: Id) -> Done:
    """Removes one for good."""
    _find(access.client, str(dead_id), existing(name))
    return _delete(access.client, str(dead_id))


@of_queue.post("/replay", operation_id="replay_dead_letters", responses=refusals(429, body=True) | GOES_ON)
def replay_dead_letters(
    access: Operates, name: Name, which: ChosenReplay, request: Request, response: Response
) -> Bulk:
    """Replays all that are chosen and were not replayed before, at most `rate` per second."""
    hf, name = access.client, existing(name)
    hf.queues.is_paused(name)
    return _in_bulk(
        request,
        response,
        lambda progress: hf.dead_letters.replay_many(name, rate=which.rate, progress=progress, **which.options()),
    )


@of_queue.post("/purge", operation_id="purge_dead_letters", responses=refusals(429, body=True) | GOES_ON)
def purge_dead_letters(access: Administers, name: Name, which: Chosen, request: Request, response: Response) -> Bulk:
    """Removes all that are chosen for good."""
    hf, name = access.client, existing(name)
    hf.queues.is_paused(name)
    return _in_bulk(
        request, response, lambda progress: hf.dead_letters.delete_many(name, progress=progress, **which.options())
    )


@of_all.get("", operation_id="list_all_dead_letters", responses=refusals())
def list_all_dead_letters(
    access: Reads,
    queue: ReaderName = None,
    n: Count = 100,
    after: After = None,
    error: Text = None,
    key: Text = None,
    since: Moment = None,
    before: Moment = None,
) -> AllDeadLetters:
    """Dead letters of all queues and groups, oldest first."""
    found = access.client.dead_letters.list(
        existing_reader(queue),
        n=n,
        after=after,
        error=error,
        key=key,
        since=since,
        before=before,
    )
    return AllDeadLetters(dead_letters=[OfQueue(**_line(letter)) for letter in found])


@of_all.get("/count", operation_id="count_dead_letters", responses=refusals())
def count_dead_letters(
    access: Reads,
    queue: ReaderName = None,
    error: Text = None,
    key: Text = None,
    since: Moment = None,
    before: Moment = None,
    fresh: Annotated[bool, Query(description="Only those that were not replayed.")] = False,
) -> DoneCount:
    """How many there are."""
    found = access.client.dead_letters.count(
        existing_reader(queue),
        error=error,
        key=key,
        since=since,
        before=before,
        fresh=fresh,
    )
    return DoneCount(count=found)


@of_all.get("/{dead_id:uuid}", operation_id="find_dead_letter", responses=refusals())
def find_dead_letter(access: Reads, dead_id: Id) -> DeadLetterDetail:
    """One of them, wherever it died."""
    return _detail(_find(access.client, str(dead_id)))


@of_all.post("/{dead_id:uuid}/replay", operation_id="replay_any_dead_letter", responses=refusals(409, body=True))
def replay_any_dead_letter(access: Operates, dead_id: Id, which: Which = None) -> DoneWithMessage:
    """Another life, wherever it died: a group gets it again, no other group does."""
    return _replay(access.client, str(dead_id), which)


@of_all.delete("/{dead_id:uuid}", operation_id="delete_any_dead_letter", responses=refusals())
def delete_any_dead_letter(access: Administers, dead_id: Id) -> Done:
    """Removes one for good."""
    return _delete(access.client, str(dead_id))


@of_all.post("/replay", operation_id="replay_all_dead_letters", responses=refusals(429, body=True) | GOES_ON)
def replay_all_dead_letters(access: Operates, which: ChosenReplayOfAll, request: Request, response: Response) -> Bulk:
    """Replays all that are chosen and were not replayed before, at most `rate` per second."""
    hf, queue = access.client, existing_reader(which.queue)
    return _in_bulk(
        request,
        response,
        lambda progress: hf.dead_letters.replay_many(queue, rate=which.rate, progress=progress, **which.options()),
    )


@of_all.post("/purge", operation_id="purge_all_dead_letters", responses=refusals(429, body=True) | GOES_ON)
def purge_all_dead_letters(access: Administers, which: ChosenOfAll, request: Request, response: Response) -> Bulk:
    """Removes all that are chosen for good."""
    hf, queue = access.client, existing_reader(which.queue)
    return _in_bulk(
        request, response, lambda progress: hf.dead_letters.delete_many(queue, progress=progress, **which.options())
    )


def _in_bulk(request: Request, response: Response, act: Act) -> Bulk:
    work = bulk_acts(request.app).start(act)
    done = work.over.is_set()
    response.status_code = 200 if done else 202
    return Bulk(done=done, count=work.count, matching=work.matching)


def _find(hf: Holdfast, dead_id: str, queue: str | None = None) -> DeadLetterRecord:
    found = hf.dead_letters.get(dead_id)
    if found is None or queue not in (None, found.queue):
        raise NotFound(f"there is no dead letter {dead_id}" + (f" of {queue!r}" if queue else ""))
    return found


def _replay(hf: Holdfast, dead_id: str, which: Replay | None) -> DoneWithMessage:
    is_mended = which is not None and "body" in which.model_fields_set
    body = which.body if which is not None and is_mended else KEPT
    return DoneWithMessage(new_message_id=hf.dead_letters.replay(dead_id, body=body).id)


def _delete(hf: Holdfast, dead_id: str) -> Done:
    if not hf.dead_letters.delete(dead_id):
        raise NotFound(f"there is no dead letter {dead_id}")
    return Done()


def _glance(letter: DeadLetterRecord) -> dict[str, Any]:
    return {
        "id": letter.id,
        "failed_at": letter.failed_at_us // 1_000_000,
        "error": letter.error,
        "attempts": letter.attempts,
        "preview": preview(letter.message.body),
    }


def _line(letter: DeadLetterRecord) -> dict[str, Any]:
    replay = {"replayed_as": letter.replayed_as, "replay_state": letter.replay_state}
    return {**_glance(letter), "queue": letter.queue, **replay}


def _detail(letter: DeadLetterRecord) -> DeadLetterDetail:
    message = letter.message
    return DeadLetterDetail(
        **_line(letter),
        replays=letter.replays,
        traceback=letter.traceback,
        history=[
            Failed(
                attempt=f.attempt,
                worker=f.worker,
                error=f.error,
                traceback=f.traceback,
                claimed_at=seconds_or_none(f.claimed_at),
                at=seconds(f.at),
            )
            for f in letter.history
        ],
        message=Original(
            id=message.id,
            body=message.body,
            headers=message.headers,
            priority=message.priority,
            key=message.key,
            correlation_id=message.correlation_id,
            reply_to=message.reply_to,
            topic=message.topic,
            enqueued_at=seconds(message.enqueued_at),
        ),
    )
