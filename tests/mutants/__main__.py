"""Change the rules and the store's steps in a sample of places, and find out which changes the tests notice.

python3 dev.py mutants --record                       once: which tests execute what
python3 dev.py mutants --sample 300 --seed 1 --long
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from tests.mutants import recording
from tests.mutants.covering import Covering
from tests.mutants.hunting import Hunt, Outcome, share
from tests.mutants.place import Place
from tests.mutants.sites import Mutant, all_mutants, load, sample, save
from tests.ready import MEMORY, use_memory
from tests.servers import PostgresDesk

ROOT = Path(__file__).parents[2]
DATA = ROOT / ".mutants"
FOLDERS = (
    *("core", "store", "client", "queues", "messages", "dead_letters", "topics", "schedules", "sagas", "commands"),
    *("notices", "replies", "budgets", "commitments", "consumers", "sqs", "worker", "spec", "model"),
)
TESTS = [f"tests/{name}" for name in FOLDERS]
"""Those that run the rules and the store in their own process, and are quick."""

BASELINE = 40
"""So many tests run on the unchanged copy first: if one fails there, no result would mean anything."""


def main() -> int:
    options = arguments()
    if options.record:
        return record(options.tests, options.record_long)
    mutants = load(options.source, ROOT) if options.source else sample(all_mutants(ROOT), options.sample, options.seed)
    if options.save:
        save(mutants, options.save)
    if options.list:
        print(*mutants, sep="\n")
        return 0
    if not list(DATA.glob("*.json.gz")):
        sys.exit("first record which tests execute what: python3 dev.py mutants --record")
    hunt(mutants, options)
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="dev.py mutants", description=__doc__, formatter_class=Raw)
    parser.add_argument("--sample", type=int, default=300, metavar="N", help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=1, help="which ones (1)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the list of mutants to a file")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE", help="take the list from a file")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    parser.add_argument("--long", action="store_true", help="run survivors on the tests left to long runs as well")
    parser.add_argument("--minutes", type=float, default=60, help="begin no mutant after so many minutes (60)")
    parser.add_argument("--budget", type=float, default=40, help="seconds of tests per mutant, as recorded (40)")
    parser.add_argument("--places", type=int, default=2, help="how many mutants at the same time (2)")
    parser.add_argument("--out", type=Path, default=DATA / "result.json", help="where the results go")
    parser.add_argument("--tests", nargs="+", default=TESTS, help=f"folders or files ({' '.join(TESTS)})")
    parser.add_argument("--record", action="store_true", help="record which tests execute what, in about 20 minutes")
    parser.add_argument("--record-long", action="store_true", help="with --record: those left to long runs as well")
    return parser.parse_args()


class Raw(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description."""


def record(tests: list[str], long: bool) -> int:
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    workers = ["-n", "3", "--dist", "worksteal", "-p", "no:cacheprovider", "-p", "tests.mutants.recording"]
    command = [sys.executable, "-m", "pytest", "-q", *workers, *(["--long"] if long else []), *tests]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, recording.FOLDER: str(DATA)}).returncode


def hunt(mutants: list[Mutant], options: argparse.Namespace) -> None:
    until = time.monotonic() + 60 * options.minutes
    covering = Covering(DATA, ROOT)
    outcomes = [Outcome(mutant) for mutant in mutants]
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="hm-", dir=MEMORY if use_memory() else None))
        )
        folder.chmod(0o755)  # PgBouncer does not run as root.
        desk = PostgresDesk()
        stack.callback(desk.close)
        places = [stack.enter_context(Place(ROOT, folder / str(n), desk.port)) for n in range(options.places)]
        collected = [place.collect(options.tests) for place in places]
        long = places[0].collect(options.tests, "--long") if options.long else []
        check(places, covering, collected[0])

        def report() -> None:
            write(outcomes, options)
            last = [one for one in outcomes if one.result != "not run"]
            print(f"\r{len(last)}/{len(outcomes)}  {counted(outcomes)}", end="", file=sys.stderr, flush=True)

        chase = Hunt(covering, collected[0], long, options.budget)
        share(places, outcomes, chase.by_default, until, report)
        survivors = [one for one in outcomes if one.result in {"survived", "not covered"}]
        if options.long:
            share(places, survivors, chase.by_long, until, report)
    print(file=sys.stderr)
    write(outcomes, options)
    print(summary(outcomes))


def check(places: list[Place], covering: Covering, default: list[str]) -> None:
    """Run some tests on the unchanged copies."""
    known = sorted((test for test in default if test in covering.seconds), key=covering.cost)
    some = known[:: max(1, len(known) // BASELINE)][:BASELINE]
    for number, place in enumerate(places):
        told = place.run(some, f"m{number}_0", timeout=120, seconds=900)
        if told["code"] != 0 or not told["passed"]:
            log = (place.folder / "result.log").read_text()
            raise RuntimeError(f"without a mutant, the tests fail: {told['killer']}\n{told['reason']}\n{log[-3000:]}")


def write(outcomes: list[Outcome], options: argparse.Namespace) -> None:
    options.out.parent.mkdir(parents=True, exist_ok=True)
    told = {"seed": options.seed, "counts": Counter(one.result for one in outcomes)}
    text = json.dumps({**told, "mutants": [one.as_json() for one in outcomes]}, indent=1, ensure_ascii=False)
    options.out.write_text(text)


def counted(outcomes: list[Outcome]) -> str:
    counts = Counter(one.result for one in outcomes if one.result != "not run")
    return ", ".join(f"{number} {result}" for result, number in sorted(counts.items()))


def summary(outcomes: list[Outcome]) -> str:
    """The survivors, then the counts of the default tests and of the long ones."""
    left = [one for one in outcomes if one.result in {"survived", "not covered"}]
    lines = [f"{one.mutant}\n    {fate(one)}" for one in left]
    judged = [one for one in outcomes if one.result != "not run"]
    killed = sum(one.result in {"killed", "timeout"} for one in judged)
    lines += ["", f"default tests: {killed} of {len(judged)} killed ({counted(outcomes)})"]
    if any(one.by_long for one in left):
        more = sum(one.by_long in {"killed", "timeout"} for one in left)
        lines.append(f"with the tests left to long runs: {killed + more} of {len(judged)} killed, {more} more")
    if len(judged) < len(outcomes):
        lines.append(f"{len(outcomes) - len(judged)} mutants did not run: the time was up")
    return "\n".join(lines)


def fate(one: Outcome) -> str:
    long = f"; in a long run: {one.by_long} {one.long_killer}".rstrip() if one.by_long else ""
    return f"{one.result}: {one.ran} of {one.covering} covering tests passed{long}"


if __name__ == "__main__":
    sys.exit(main())
