"""Where groups are in their topics' logs, for whoever operates them. (`awaiting_seeking` has it for asyncio.)"""

from __future__ import annotations

from datetime import datetime

from holdfast.core.message import id_bytes
from holdfast.core.routing import topic_name
from holdfast.core.topic import address, group_name, parts, start_of
from holdfast.errors import InvalidInput, UnknownGroup
from holdfast.notices import Escalating


class Seeking(Escalating):
    """The part of a client that moves groups about."""

    def seek(self, group: str, to: str | float | datetime, *, topic: str | None = None) -> None:
        """Puts a group elsewhere in its topic: "earliest", "latest", a time, or the id of a message.

        Everything before that place counts as done, everything from there on is delivered, again where it was before.
        So what was open is forgotten: held claims are lost, retries do not come, blocked keys are free, skips are
        void. Dead letters and their replays stay. Other groups notice nothing. Who did it stands in the audit.

        `topic` may be left out if only one topic has such a group.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "email")
        >>> hf.seek("email", "earliest")
        """
        place = start_of(to, "to")
        self._book.open()
        channel = self._book.channel(self._address_of(group_name(group), topic))
        self.store.places.seek(channel, place, self.actor)

    def skip(self, topic: str, group: str, message_id: str) -> bool:
        """One message counts as done for one group, wherever it is: not delivered yet, waiting for another attempt, or
        being worked on, where the claim is lost. Who did it stands in the audit.

        False if the group is not owed it: it is done with it, it is a dead letter, or it was never for this group.
        """
        topic_name(topic, "topic")
        wanted = id_bytes(message_id)
        channel = self._book.channel(address(topic, group_name(group)))
        return self.store.places.skip(channel, wanted, self.actor)

    def cancel_group(self, topic: str, group: str) -> bool:
        """Ends a group, and leaves a mark of it: nothing is kept for it any more, claims that it holds are lost, and
        its members stop. It is still listed, as "canceled", and nobody joins it by mistake: `subscribe` refuses its
        name until `unsubscribe` has removed it. There is no way back. Who did it stands in the audit.

        Its dead letters stay. False if there is none of this name, or it was canceled before.

        >>> hf.topic("orders")
        >>> hf.subscribe("orders", "fax")
        >>> hf.cancel_group("orders", "fax")
        True
        """
        topic_name(topic, "topic")
        return self._book.cancel_group(address(topic, group_name(group)), self.actor)

    def _address_of(self, group: str, topic: str | None) -> str:
        """The address of a group, if there is one."""
        if topic is not None:
            return address(topic_name(topic, "topic"), group)
        names = [one.name for one in self.store.channels.readers(self.settings.tenant)]
        found = [name for name in names if (pair := parts(name)) is not None and pair[1] == group]
        if not found:
            raise UnknownGroup(f"no topic has a group {group!r}: hf.subscribe(topic, {group!r})")
        if len(found) > 1:
            raise InvalidInput(f"several topics have a group {group!r} ({', '.join(found)}): say which with topic=…")
        return found[0]
