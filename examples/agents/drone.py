"""A drone: reads one chapter from stdin, prints a summary as JSON. Two chapters are too much for it."""

import json
import os
import signal
import sys


def main() -> None:
    work = json.load(sys.stdin)
    attempt = int(os.environ["HOLDFAST_ATTEMPT"])
    if work["chapter"] == 2 and attempt == 1:
        print(json.dumps({"note": "I am done, believe me"}))
        return
    if work["chapter"] == 4:
        print("this chapter is too dark for me", file=sys.stderr)
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)
    print(json.dumps({"summary": " ".join(work["text"].split()[:4]) + " …"}))


main()
