"""Functions around enqueue that can be seen in what is stored."""

import asyncio
from typing import Any

from holdfast import Outgoing


def stamp(name: str) -> Any:
    """A function around enqueue that adds its name to the header `by`."""

    def add(outgoing: Outgoing, proceed: Any) -> Any:
        outgoing.headers = {**(outgoing.headers or {}), "by": [*(outgoing.headers or {}).get("by", []), name]}
        return proceed()

    return add


def async_stamp(name: str) -> Any:
    plain = stamp(name)

    async def add(outgoing: Outgoing, proceed: Any) -> Any:
        await asyncio.sleep(0)
        return await plain(outgoing, proceed)

    return add
