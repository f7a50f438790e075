"""A worker process for the tests: python -m tests.sqs.worker URL LOG. It ends with its stdin, or is killed."""

import os
import sys
import threading

from holdfast import Context, Holdfast, Message
from tests.waiting import spend


def main(url: str, log: str, seconds: float) -> None:
    hf = Holdfast(url, delivery="sqs", sqs_create=True)
    lines = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @hf.consumer("q", concurrency=4)
    def work(message: Message, context: Context) -> None:
        os.write(lines, f"{message.body} {context.attempt}\n".encode())
        spend(seconds)

    threading.Thread(target=lambda: (sys.stdin.read(), hf.stop()), daemon=True).start()
    print("ready", flush=True)
    hf.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
