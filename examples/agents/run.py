"""Gives the crew a book and tells what becomes of it. Ends when every chapter has ended and the user has answered."""

import os
import tempfile
import time

BOOK = {
    "title": "The Whale",
    "chapters": [
        "Call me Ishmael, he said, and so we did.",
        "I stuffed a shirt or two into my old carpet-bag.",
        "Entering that gable-ended Spouter-Inn, you found yourself in a wide entry.",
        "Upon waking next morning about daylight I found nothing but the sea.",
        "The bar-room was now full of the boarders.",
    ],
}

LONGEST = 60.0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        # The pool's processes import crew.py too, and find the same database there.
        os.environ["CREW_DB"] = f"sqlite:///{folder}/crew.db"
        import crew

        crew.declare()
        crew.hf.on_notice(lambda notices: [told(notice) for notice in notices])
        with crew.hf, crew.hf.running():
            watch(crew.hf, crew.hf.enqueue("books", BOOK).id)


def watch(hf, book):
    """Until everything has ended."""
    seen, deadline = {}, time.monotonic() + LONGEST
    while not is_over(hf, book):
        assert time.monotonic() < deadline, "this should not take so long"
        for chapter in hf.messages.search("chapters", correlation_id=book):
            tell(hf, chapter, seen)
        hf.notices.escalate()  # By itself this happens every five seconds.
        time.sleep(0.1)
    for chapter in hf.messages.search("chapters", correlation_id=book):
        tell(hf, chapter, seen)
    [notice] = hf.notices.list("user")
    hf.notices.acknowledge(notice.id, remark="I shall read that one myself")
    say("user", "answers: I shall read that one myself")
    done = sum(chapter.state == "succeeded" for chapter in hf.messages.search("chapters", correlation_id=book))
    say("crew", f"{done} of {len(BOOK['chapters'])} chapters done, 1 dead, and somebody knows")


def is_over(hf, book):
    """Whether every chapter has ended, and the dead one has come to the user."""
    chapters = hf.messages.search("chapters", correlation_id=book)
    ended = [chapter for chapter in chapters if chapter.state in ("succeeded", "dead")]
    return len(ended) == len(BOOK["chapters"]) and hf.notices.list("user")


def tell(hf, chapter, seen):
    """What is new about a chapter."""
    name = f"chapter {chapter.message.body['chapter']}"
    if chapter.id not in seen:
        seen[chapter.id] = 0
        say("parent", f"sends {name}")
    for failure in chapter.history[seen[chapter.id] :]:
        say("drone", f"{name}, attempt {failure.attempt}, failed: {in_short(failure.error)}")
    seen[chapter.id] = max(seen[chapter.id], len(chapter.history))
    if chapter.state == "succeeded" and (chapter.id, "done") not in seen:
        seen[chapter.id, "done"] = True
        say("drone", f"{name} is done: {chapter.result['summary']}")
        for check in hf.messages.commitments(chapter.id):
            say("check", f"{name}, attempt {check.attempt}: {check.name}: {'kept' if check.passed else 'broken'}")
    if chapter.state == "dead" and (chapter.id, "dead") not in seen:
        seen[chapter.id, "dead"] = True
        say("drone", f"{name} is dead after {chapter.attempts} attempts")


def told(notice):
    say("notice", f"for {notice.owner}, level {notice.level}: {in_short(notice.error)}")


def say(who, what):
    print(f"{who:>8}  {what}", flush=True)


def in_short(error):
    """Without the way that led there."""
    return error.strip().splitlines()[0].rpartition("ProgramFailed: ")[2]


if __name__ == "__main__":
    main()
