"""The client's book of queues: found once, remembered for a second, declared on first use unless strict."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from msgspec import structs

from holdfast.commands.rules import command_of
from holdfast.core.given import Settle, unless_there
from holdfast.core.queue import QueueSpec, channel_name
from holdfast.errors import (
    GroupCanceled,
    InvalidInput,
    StoreError,
    UnknownGroup,
    UnknownQueue,
    UnknownTopic,
)
from holdfast.replies.rules import REPLIES, default_spec, is_reply_queue
from holdfast.settings import Settings
from holdfast.sqs.rules.names import made_name
from holdfast.store import fork_safety
from holdfast.store.api import Channel, Joined, Store, Topic
from holdfast.topics.rules.declaration import GroupSpec, Start, TopicSpec, address, parts, reader_name
from holdfast.topics.rules.routing import names_above, similar_name, topic_name

Trial = Callable[[Channel], object]

MOST_NAMES = 10_000
"""Names below topics that are remembered."""

FRESH = 1.0
"""Seconds for which a queue's settings are trusted; a change elsewhere is seen after that."""


class ChannelBook(fork_safety.Guarded):
    """Channels by name. Opens (and migrates) the database on first use."""

    def __init__(self, store: Store, settings: Settings, meet: Callable[[Channel], object]) -> None:
        """`meet` is called with every channel that was found or declared, before it is used."""
        self._store = store
        self._meet = meet
        self._settings = settings
        self._known: dict[str, tuple[float, Channel]] = {}
        self._topics: dict[str, tuple[float, Topic | str]] = {}
        self._opened = False
        self._opening = threading.Lock()
        self._noting = threading.Lock()
        self._changes = 0
        fork_safety.guard(self)

    def after_fork_in_child(self) -> None:
        """Whoever was opening the database is doing it in the parent."""
        self._opening = threading.Lock()
        self._noting = threading.Lock()

    def open(self) -> None:
        """Makes sure that the database has the structure this code expects."""
        if self._opened:
            return
        with self._opening:
            if not self._opened:
                self._prepare()
                self._opened = True

    def knows(self, name: str) -> bool:
        """Whether `channel(name)` would answer without asking the database."""
        return self.known(name) is not None

    def known(self, name: str) -> Channel | None:
        """The queue of this name, if it was looked up a moment ago."""
        found = self._known.get(name) if isinstance(name, str) else None
        return found[1] if found is not None and time.monotonic() < found[0] else None

    def declare(self, name: str, change: Settle[QueueSpec]) -> Channel:
        """Creates a queue, or changes its settings. Writes nothing if they are as wanted already."""
        if is_reply_queue(channel_name(name)):
            raise InvalidInput(f"{name!r} cannot be declared: queues whose names begin with {REPLIES} are hf.ask's own")
        settle = self._settle(name, change)
        self.open()
        before = self._changes
        found = self._store.channels.find(self._settings.tenant, name)
        if found is not None and settle(found.spec) == found.spec:
            return self._note_found(found, before)
        return self._declare(name, settle)

    def _settle(self, name: str, change: Settle[QueueSpec]) -> Settle[QueueSpec]:
        """The change, and what only the client knows of a queue."""

        def settle(before: QueueSpec | None) -> QueueSpec:
            spec = self._addressed(name, change(before))
            if spec.dead_letter == name:
                raise InvalidInput(f"the queue {name!r} cannot be its own dead_letter queue: a death would never end")
            return spec

        return settle

    def channel(self, name: str, trial: Trial | None = None, *, create: bool = True) -> Channel:
        """The queue of this name; one that was never declared comes to life with the defaults, unless strict.

        Before it does, what it is wanted for has its `trial`: what is refused leaves no queue behind. A publish does
        not `create` one: nobody would read it.
        """
        if (known := self.known(name)) is not None:
            return known
        reader_name(name)
        self.open()
        before = self._changes
        channel = self._store.channels.find(self._settings.tenant, name)
        if channel is not None:
            return self._note_found(channel, before)
        self._refuse_unknown_group(name)
        if not create:
            raise self._unknown_topic(name)
        self._try_out(name, trial)
        return self._declare(name, unless_there(self._default_spec(name)))

    def channels(self, names: Sequence[str]) -> list[Channel]:
        """The queues of these names; if one cannot be a name, none comes to life."""
        for name in names:
            if not self.knows(name):
                reader_name(name)
        return [self.channel(name) for name in names]

    def channel_within(self, joined: Joined, name: str, trial: Trial | None = None, *, create: bool = True) -> Channel:
        """The same, seen from a caller's transaction: one that it brings to life is gone if it is rolled back."""
        if self.knows(reader_name(name)):
            return self._known[name][1]
        self._refuse_unknown_group(name)
        found = joined.find(self._settings.tenant, name)
        if found is None and not create:
            raise self._unknown_topic(name)
        if found is None:
            self._try_out(name, trial)
        return found or joined.declare(self._settings.tenant, name, unless_there(self._default_spec(name)))

    def _default_spec(self, name: str) -> QueueSpec:
        """What a queue is like that nobody has declared. Holdfast's own are the database's to deliver."""
        spec = default_spec(name)
        if is_reply_queue(name) or self._settings.delivery == "database":
            return spec
        return self._addressed(name, structs.replace(spec, delivery=self._settings.delivery))

    def _addressed(self, name: str, spec: QueueSpec) -> QueueSpec:
        """The name of its SQS queue is part of a queue's settings, so that everyone uses the same."""
        if spec.delivery == "database" or spec.sqs_queue is not None:
            return spec
        return structs.replace(spec, sqs_queue=made_name(self._settings.sqs_prefix, self._settings.tenant, name))

    def _declare(self, name: str, settle: Settle[QueueSpec]) -> Channel:
        return self._remember(self._store.channels.declare(self._settings.tenant, name, settle))

    def readers(self) -> list[Channel]:
        """Every queue and every group of this tenant."""
        self.open()
        before = self._changes
        return [self._note_found(one, before) for one in self._store.channels.readers(self._settings.tenant)]

    # --- topics -------------------------------------------------------------------------------------------------------

    def declare_topic(self, name: str, change: Settle[TopicSpec]) -> Topic:
        """Creates a topic, or changes its settings. Writes nothing if they are as wanted already."""
        found = self.named(topic_name(name))
        if not isinstance(found, Topic) or change(found.spec) != found.spec:
            found = self._store.topics.declare(self._settings.tenant, name, change)
        self._topics.clear()  # Also if it was somebody else who changed it.
        return found

    def declare_owning(self, name: str, change: Settle[QueueSpec]) -> Channel:
        """The same for a queue that owns all names below."""
        found, settle = self.named(topic_name(name)), self._settle(name, change)
        if not isinstance(found, Channel) or settle(found.spec) != found.spec:
            found = self._store.topics.declare_queue(self._settings.tenant, name, settle)
        self._topics.clear()
        return self._remember(found)

    def named(self, name: str) -> Topic | Channel | None:
        """The topic, or the queue in the form of one, that has exactly this name. Asks the database."""
        self.open()
        found = self._store.topics.find(self._settings.tenant, [name])
        return found if found is not None and found.name == name else None

    def topic(self, name: str) -> Topic:
        """The topic that this is the name of."""
        found = self.destination(name)
        if not isinstance(found, Topic) or found.name != name:
            raise self._no_topic(name, found)
        return found

    def _no_topic(self, name: str, found: Topic | str) -> UnknownTopic:
        """Says what this name is, if it is not that of a topic."""
        if isinstance(found, Topic):
            return UnknownTopic(
                f"there is no topic {name!r}: it is a name below {found.name!r}, which has the groups; "
                f"hf.subscribe({found.name!r}, …, patterns=[{name!r}]) gets what is published under it"
            )
        if found != name or self._store.channels.find(self._settings.tenant, name) is not None:
            what = "it is a queue" if found == name else f"it belongs to the queue {found!r}"
            return UnknownTopic(
                f"there is no topic {name!r}: {what}, and each message there goes to one consumer "
                f"(hf.claim({found!r}) gets it); a topic with groups needs another name"
            )
        return UnknownTopic(f"there is no topic {name!r}: declare it with hf.topic({name!r})")

    def _unknown_topic(self, name: str) -> UnknownTopic:
        """For a publish under a name that belongs to no topic and is no queue's: what it may have been meant for."""
        tenant = self._settings.tenant
        topics = self._store.topics.names(tenant)
        hint = similar_name(name, topics, self._store.channels.names(tenant))
        asked = f"did you mean {hint!r}? Otherwise " if hint else ""
        return UnknownTopic(
            f"{name!r} belongs to no topic and is not a queue; nothing was stored: {asked}declare the topic with "
            f"hf.topic({name.split('.')[0]!r}), or the queue with hf.queue({name!r})"
        )

    def destination(self, name: str) -> Topic | str:
        """Where something goes that is published under this name: to its topic, or to the queue of a name."""
        found = self.known_destination(name)
        if found is not None:
            return found
        self.open()
        names = [*names_above(topic_name(name)), name]
        owner = self._store.topics.find(self._settings.tenant, names)
        if owner is None:
            return name
        if len(self._topics) >= MOST_NAMES:
            self._topics.clear()
        self._topics[name] = (time.monotonic() + FRESH, owner if isinstance(owner, Topic) else owner.name)
        return self._topics[name][1]

    def known_destination(self, name: str) -> Topic | str | None:
        """The same, if it is known without a look at the database."""
        found = self._topics.get(name) if isinstance(name, str) else None
        if found is not None and time.monotonic() < found[0]:
            return found[1]
        return name if self.knows(name) else None

    def subscribe(self, topic: Topic, group: str, change: Settle[GroupSpec], start: Start) -> tuple[Channel, bool]:
        """A new group, or an old one with new settings; and whether anything had to be written for that."""
        before = self._changes
        found = self._store.channels.find(self._settings.tenant, address(topic.name, group))
        if found is not None and isinstance(found.spec, GroupSpec) and change(found.spec) == found.spec:
            return self._note_found(found, before), False
        return self._remember(self._store.topics.subscribe(topic, group, change, start)), True

    def settings(self, name: str) -> QueueSpec | TopicSpec:
        """What is stored of a queue, of a group by its address, or of a topic. Creates nothing."""
        reader_name(name)
        self.open()
        found = self._store.channels.find(self._settings.tenant, name)
        if found is None and parts(name) is not None:
            self._refuse_unknown_group(name)
        owner = found or self.named(name)
        if owner is None:
            raise UnknownQueue(f"there is no queue or topic {name!r}: declare it with hf.queue({name!r})")
        return owner.spec

    def unsubscribe(self, name: str, actor: str) -> bool:
        """Ends a group, or removes one that was canceled; False if there is none of this address."""
        self.open()
        self._known.pop(name, None)
        return self._store.topics.unsubscribe(self._settings.tenant, name, actor)

    def cancel_group(self, name: str, actor: str) -> bool:
        """Ends a group whose name is not free then; False if there is none of this address that goes on."""
        self.open()
        self._known.pop(name, None)
        channel = self._store.channels.find(self._settings.tenant, name)
        return channel is not None and self._store.places.cancel(channel, actor)

    def has_ended(self, name: str) -> bool:
        """Whether there is a queue or a group of this name no more. Asks the database."""
        self._known.pop(name, None)
        return self._store.channels.find(self._settings.tenant, name) is None

    def _refuse_unknown_group(self, name: str) -> None:
        found = parts(name)
        if found is None:
            return
        if self._store.topics.is_canceled(self._settings.tenant, name):
            raise GroupCanceled(
                f"the group {name!r} was canceled, which is final; hf.groups.remove{found!r} removes it"
            )
        topic, group = found
        raise UnknownGroup(f"nobody has subscribed to {topic!r} as {group!r}: hf.subscribe({topic!r}, {group!r})")

    def _try_out(self, name: str, trial: Trial | None) -> None:
        is_ours = is_reply_queue(name) or command_of(name) is not None  # An answer that comes too late is no mistake.
        if self._settings.strict and not is_ours:
            raise _undeclared(name)
        if trial is not None:
            trial(Channel(0, 0, self._settings.tenant, name, self._default_spec(name)))

    def _remember(self, channel: Channel) -> Channel:
        """Notes the settings that this client has just declared."""
        self._meet(channel)
        with self._noting:
            self._changes += 1
            self._known[channel.name] = (time.monotonic() + FRESH, channel)
        return channel

    def _note_found(self, channel: Channel, before: int) -> Channel:
        """Notes what a look-up has found, unless something was declared here meanwhile: it may be outdated then."""
        self._meet(channel)
        with self._noting:
            if self._changes == before:
                self._known[channel.name] = (time.monotonic() + FRESH, channel)
        return channel

    def _prepare(self) -> None:
        schema = self._store.schema
        if self._settings.migrate:
            schema.migrate()
        elif (version := schema.verify()) < schema.newest:
            raise StoreError(
                f"the database is at schema {version}, this Holdfast needs {schema.newest}: "
                "run `holdfast migrate`, or allow it with Holdfast(url, migrate=True)"
            )
        if schema.is_ahead():
            raise StoreError(
                "this database was restored from a dump of another server, and its messages carry transaction numbers "
                "that this server has not reached: stop everything that uses it and run `holdfast rebase --db URL` once"
            )


def _undeclared(name: str) -> UnknownQueue:
    return UnknownQueue(f"the queue {name!r} was never declared, and this client is strict: hf.queue({name!r})")
