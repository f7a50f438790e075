"""The clock of our own tests is the one that users get."""

from holdfast.testing import FakeClock

__all__ = ["FakeClock"]
