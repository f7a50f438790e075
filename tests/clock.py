"""A clock that stands still until a test moves it."""


class FakeClock:
    """Microseconds since 1970, as `Holdfast(url, clock=…)` wants them."""

    def __init__(self, now: int = 1_767_225_600_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1_000_000)
