"""A server for webhooks, as a process: `python -m bench.serving CONTENDER URL`. It says its port; SIGTERM ends it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.queues import Target

SECRET = "bench"
QUEUE = "hooks"


@contextmanager
def served(target: Target) -> Iterator[int]:
    """The port of a server that runs meanwhile."""
    command = [sys.executable, "-m", "bench.serving", target.contender, target.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()
            process.wait(60)


def run_holdfast(url: str) -> None:
    from holdfast import Holdfast
    from holdfast.server.app import ROUTERS, create_app
    from holdfast.server.server import serve
    from holdfast.server.webhooks.hook import Hook
    from holdfast.server.webhooks.signatures import Verifier
    from holdfast.spec.running import function_of

    with Holdfast(url) as hf:
        hf.queue(QUEUE, history=0)
        hook = Hook(
            name="bench",
            queue=QUEUE,
            verifier=Verifier("X-Signature", [SECRET]),
            key=function_of("payload.id"),
            key_is_signed=True,
        )
        serve(
            hf, create_app(hf, [hook], routers=ROUTERS), port=0, on_started=lambda at: say(int(at.rpartition(":")[2]))
        )


def run_bare() -> None:
    """The smallest route that could be meant."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def receive(request: Request) -> JSONResponse:
        await request.json()
        return JSONResponse({"queued": True}, 202)

    class Telling(uvicorn.Server):
        async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
            await super().startup()
            say(self.servers[0].sockets[0].getsockname()[1])

    app = Starlette(routes=[Route("/hook/{name}", receive, methods=["POST"])])
    options = {"log_level": "error", "access_log": False, "http": "httptools", "loop": "uvloop"}
    Telling(uvicorn.Config(app, port=0, **options)).run()  # type: ignore[arg-type]


def say(port: int) -> None:
    print(port, flush=True)


if __name__ == "__main__":
    run_holdfast(sys.argv[2]) if sys.argv[1] == "holdfast" else run_bare()
