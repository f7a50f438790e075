"""A served spec that can be exchanged for a newer one, without dropping a request or a message.

The new one is read and checked first, and a new process of consumers finds all that it names; then the database is made
to fit, these consumers take over, and only then deliveries go its way. What fails before the database was made to fit
has changed nothing; what fails after it takes the old spec's settings back.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.client.client import Holdfast
from holdfast.errors import HoldfastError
from holdfast.server.serving.declare import has_staff
from holdfast.server.serving.loading import Sources, load
from holdfast.server.serving.webhooks import expect_message_types, hooks_of
from holdfast.server.serving.workers import Workers
from holdfast.server.webhooks.hook import Hook
from holdfast.spec.apply import WouldLose, accepting, apply
from holdfast.spec.model import Spec
from holdfast.spec.plan import PlanStep

log = logging.getLogger("holdfast.server.serving")

LOOK_EVERY = 1.0
"""Seconds between two looks at the files."""

LONGEST = 60.0
"""Seconds to wait for a reload that is under way when everything stops."""


class ServedSpec:
    """The spec that is served now. `hf` is the server's client; what the user's module declares belongs to another
    one over the same connections, which comes and goes with it."""

    def __init__(self, hf: Holdfast, sources: Sources, environ: Mapping[str, str], accept_loss: bool = False) -> None:
        """`accept_loss` is for the start only: who agreed to that one knows nothing of later changes of the file."""
        self._hf = hf
        self._sources = sources
        self._environ = environ
        self.spec, self.hooks, self.staffed = self._read()
        self._make(self.spec, accepting("serve", sources.spec, **self._options, module=sources.module), accept_loss)

    def reload(self, replace_hooks: Callable[[list[Hook]], object], workers: Workers | None) -> None:
        """Serves what the files say now."""
        spec, hooks, staffed = self._read()
        if workers is not None and staffed:
            workers.replace(self._changing(spec))
        else:
            with self._changing(spec):
                if workers is not None:
                    workers.dismiss()
        self.spec, self.hooks, self.staffed = spec, hooks, staffed
        replace_hooks(hooks)

    def _read(self) -> tuple[Spec, list[Hook], bool]:
        declared = self._hf.acting_as()
        spec = load(declared, self._sources, self._environ)
        return spec, hooks_of(declared, spec, self._environ), has_staff(declared, spec)

    @contextmanager
    def _changing(self, spec: Spec) -> Iterator[None]:
        """The database is as this spec says, and stays so unless something fails inside."""
        try:
            self._make(spec, accepting("apply", self._sources.spec, **self._options))
            yield
        except WouldLose:
            raise  # Nothing was changed.
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        try:
            self._make(self.spec, accepting("apply", self._sources.spec, **self._options))
        except HoldfastError as problem:
            log.error("the database has settings of the spec that was not taken over: %s", problem)

    @property
    def _options(self) -> dict[str, str]:
        return {"db": self._hf.settings.url, "tenant": self._hf.settings.tenant}

    def _make(self, spec: Spec, command: str, accept_loss: bool = False) -> None:
        def told(step: PlanStep) -> None:
            log.info("%sd %s %s", step.act, step.kind, step.name)

        apply(self._hf, spec, accept_loss=accept_loss, command=command, told=told)
        expect_message_types(self._hf, spec)


class Reloader:
    """Reloads when a file changes, or when told so. What goes wrong is logged, and the old spec stays."""

    def __init__(self, sources: Sources, reload: Callable[[], object], watch: bool) -> None:
        self._sources = sources
        self._reload = reload
        self._watch = watch
        self._told = threading.Event()
        self._over = False
        self._seen = self._look()
        self._thread = threading.Thread(target=self._run, name="holdfast-reload", daemon=True)
        self._thread.start()

    def now(self) -> None:
        """Reloads, whether anything has changed or not."""
        self._told.set()

    def stop(self) -> None:
        """No more of that."""
        self._over = True
        self._told.set()
        self._thread.join(LONGEST)

    def _run(self) -> None:
        while True:
            told = self._told.wait(LOOK_EVERY if self._watch else None)
            if self._over:
                return
            self._told.clear()
            seen = self._look()
            if not told and seen == self._seen:
                continue
            self._seen = seen
            try:
                self._reload()
                log.info("reloaded %s", self._sources.spec)
            except HoldfastError as problem:
                log.error("%s was not reloaded, and what was served is served on:\n%s", self._sources.spec, problem)
            except Exception:  # The user's module.
                log.exception("%s was not reloaded, and what was served is served on", self._sources.spec)

    def _look(self) -> list[Any]:
        return [_state(file) for file in self._sources.files]


def _state(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
