"""Clients by a clock that stands still."""

from tests.frozen_clients import claim, client, clock, hf, owned, rival, two

__all__ = ["claim", "client", "clock", "hf", "owned", "rival", "two"]
