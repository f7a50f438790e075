"""What a member of a pool tells its supervisor of its work, once each, so that a crash can be judged."""

from __future__ import annotations

SETTLED = b"settled"
"""It has done something."""

RETRIED = b"retried"
"""It has a message that was tried before, and may be about to die of it."""
