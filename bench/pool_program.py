"""python -m bench.pool_program URL FOLDER PROCESSES: a supervisor, as a program has one, and each of its members.

A member that ends leaves the numbers that it was given in a file of the folder.
"""

import json
import os
import sys
from pathlib import Path

from bench.queues.holdfast import QUEUE
from holdfast import Holdfast, Message
from holdfast.events import ConsumerStopped

url, folder, processes = sys.argv[1:]
hf = Holdfast(url)
numbers: list[int] = []


@hf.consumer(QUEUE, empty="hibernate")
def handle(message: Message) -> None:
    numbers.append(message.body["n"])


def leave(event: ConsumerStopped) -> None:
    Path(folder, f"{os.getpid()}.json").write_text(json.dumps(numbers))


hf.on(ConsumerStopped, leave)
hf.pool(handle, min=int(processes), max=int(processes))

if __name__ == "__main__":
    hf.run()
