"""Topics and their groups: how far each group is, stopping it, putting it elsewhere, ending it."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from holdfast.client.client import Holdfast
from holdfast.errors import InvalidInput, NotFound, UnknownGroup, shown
from holdfast.queues.admin import Peeked, StoredSettings, stored_settings, waiting
from holdfast.server.admin.models import (
    ID,
    LATEST,
    Count,
    Done,
    DoneCount,
    Input,
    Name,
    Output,
    SecondsOrNone,
    existing,
    refusals,
    seconds_or_none,
)
from holdfast.server.admin.roles import Administers, Operates, Reads
from holdfast.topics.rules.declaration import GroupStatus, address

router = APIRouter(prefix="/admin/topics", tags=["topics"])


class GroupView(Output):
    """A group, and how far it is. `lag` messages are still to come, the oldest for `oldest_message_age_seconds`;
    `lost` is how many retention took from it."""

    topic: str
    group: str
    patterns: list[str]
    state: str
    lag: int
    behind: int
    past: int
    oldest_message_age_seconds: float | None = Field(description="Seconds; null if nothing is to come.")
    in_flight: int
    dead_letters: int
    lost: int
    members: list[str]
    last_seen: SecondsOrNone


class TopicView(Output):
    """A topic with its groups."""

    name: str
    groups: list[GroupView]


class TopicList(Output):
    """The names of all topics."""

    topics: list[str]


class Seek(Input):
    """Where the group is to go on: with everything, with what comes from now on, at a time, or with a message."""

    to: Literal["earliest", "latest"] | Annotated[float, Field(ge=0, le=LATEST)] | Annotated[str, Field(pattern=ID)] = (
        Field(
            description="Seconds since 1970 if it is a number; otherwise `earliest`, `latest` or the id of a message."
        )
    )


class SkipInput(Input):
    """Which message counts as done."""

    message_id: str = Field(pattern=ID)


_GROUP = "/{topic}/groups/{group}"


@router.get("", operation_id="list_topics", responses=refusals())
def list_topics(access: Reads) -> TopicList:
    """All topics of the tenant."""
    return TopicList(topics=sorted(access.client.topics.list()))


@router.get("/{topic}", operation_id="get_topic", responses=refusals())
def get_topic(access: Reads, topic: Name) -> TopicView:
    """A topic and its groups."""
    return TopicView(name=topic, groups=[_shown(one) for one in _groups(access.client, topic)])


@router.get("/{topic}/settings", operation_id="get_topic_settings", responses=refusals())
def get_topic_settings(access: Reads, topic: Name) -> StoredSettings:
    """Every setting that can be declared, in the words of `hf.topic`."""
    return stored_settings(access.client, existing(topic, "topic"))


@router.get(_GROUP, operation_id="get_group", responses=refusals())
def get_group(access: Reads, topic: Name, group: Name) -> GroupView:
    """One group: its lag, its members, whether it is alive."""
    return _shown(_find(access.client, topic, group))


@router.get(_GROUP + "/settings", operation_id="get_group_settings", responses=refusals())
def get_group_settings(access: Reads, topic: Name, group: Name) -> StoredSettings:
    """Every setting that can be declared, in the words of `hf.subscribe`."""
    return stored_settings(access.client, _address(access.client, topic, group))


@router.get(_GROUP + "/messages", operation_id="peek_group", responses=refusals())
def peek_group(access: Reads, topic: Name, group: Name, n: Count = 10) -> Peeked:
    """The next messages of a group, without claiming them."""
    found = access.client.queues.peek(_address(access.client, topic, group), n)
    return Peeked(messages=[waiting(message) for message in found])


@router.post(_GROUP + "/pause", operation_id="pause_group", responses=refusals())
def pause_group(access: Operates, topic: Name, group: Name) -> Done:
    """The group gets nothing until `resume`; what is published is owed to it."""
    access.client.queues.pause(_address(access.client, topic, group))
    return Done()


@router.post(_GROUP + "/resume", operation_id="resume_group", responses=refusals())
def resume_group(access: Operates, topic: Name, group: Name) -> Done:
    """Ends a pause."""
    access.client.queues.resume(_address(access.client, topic, group))
    return Done()


@router.post(_GROUP + "/seek", operation_id="seek_group", responses=refusals(body=True))
def seek_group(access: Operates, topic: Name, group: Name, seek: Seek) -> Done:
    """Puts the group elsewhere in its topic. What was open is forgotten; claims that are held are lost."""
    _address(access.client, topic, group)
    access.client.groups.seek(group, seek.to, topic=topic)
    return Done()


@router.post(_GROUP + "/skip", operation_id="skip_message", responses=refusals(body=True))
def skip_message(access: Operates, topic: Name, group: Name, skip: SkipInput) -> Done:
    """One message counts as done for this group. `ok` is false if the group is not owed it."""
    _address(access.client, topic, group)
    return Done(ok=access.client.groups.skip(topic, group, skip.message_id))


@router.post(_GROUP + "/accept-loss", operation_id="accept_loss", responses=refusals())
def accept_loss(access: Operates, topic: Name, group: Name) -> DoneCount:
    """Lets a group go on without what retention took from it while it was dead."""
    _address(access.client, topic, group)
    return DoneCount(count=access.client.groups.accept_loss(topic, group))


@router.delete(_GROUP, operation_id="remove_group", responses=refusals())
def remove_group(access: Administers, topic: Name, group: Name) -> Done:
    """Ends a group for good: nothing is kept for it, and claims that it holds are lost. Its dead letters stay."""
    _address(access.client, topic, group)
    if not access.client.groups.remove(topic, group):
        raise UnknownGroup
    return Done()


def _address(hf: Holdfast, topic: str, group: str) -> str:
    """Where a group is asked for; 404 if nobody subscribed so."""
    found = _find(hf, topic, group)
    return address(found.topic, found.group)


def _find(hf: Holdfast, topic: str, group: str) -> GroupStatus:
    existing(group, "group")
    for one in _groups(hf, topic):
        if one.group == group:
            return one
    raise UnknownGroup(f"nobody has subscribed to {topic!r} as {group!r}")


def _groups(hf: Holdfast, topic: str) -> list[GroupStatus]:
    try:
        return hf.groups.list(existing(topic, "topic"))
    except InvalidInput:  # A pattern, or a name with an empty segment.
        raise NotFound(f"there is no topic {shown(topic)}") from None


def _shown(group: GroupStatus) -> GroupView:
    return GroupView(
        topic=group.topic,
        group=group.group,
        patterns=group.patterns,
        state=group.state,
        lag=group.lag,
        behind=group.behind,
        past=group.past,
        oldest_message_age_seconds=group.oldest,
        in_flight=group.in_flight,
        dead_letters=group.dead_letters,
        lost=group.lost,
        members=group.members,
        last_seen=seconds_or_none(group.last_seen),
    )
