"""Which tests run on which stores."""

import os
from pathlib import Path

STORES = ["sqlite-apsw", "sqlite-stdlib", "postgres"]
"""What every test runs on that takes `url`."""

POOLED = frozenset(
    {
        "tests/conformance/test_claim.py",
        "tests/conformance/test_expiry.py",
        "tests/conformance/test_groups.py",
        "tests/conformance/test_limits.py",
        "tests/conformance/test_ordering.py",
        "tests/conformance/test_patience.py",
        "tests/conformance/test_settle.py",
        "tests/runtime/test_outcomes.py",
    }
)
"""The slice that also runs behind a pooler in transaction mode: everything in which a session could have mattered."""


THROUGH_SQS = ["sqlite-sqs", "postgres-sqs"]
"""The queue and runtime suites, unchanged, with every queue delivered through moto's SQS."""

DELIVERED_BY_SQS = {"delivery": "sqs", "sqs_create": True}
"""The defaults of all clients meanwhile."""

CHILDREN_THROUGH_SQS = "HOLDFAST_TEST_THROUGH_SQS"
"""In the environment of processes that such a test starts: their clients have the same defaults."""

MATTER_MOST = frozenset(
    {
        *(
            f"tests/conformance/test_{name}.py"
            for name in (
                "ageing",
                "cancel",
                "claim",
                "dead_letter_copies",
                "dead_letters",
                "expiry",
                "idempotency",
                "max_depth",
                "ordering",
                "pause",
                "sagas",
                "settle",
            )
        ),
        "tests/runtime/test_outcomes.py",
    }
)
"""Those that always run through SQS; with HOLDFAST_SQS=all in the environment, all others do that can."""

TOPICS = "topics and groups are delivered by the database; only queues go through SQS"
NO_QUEUE = "nothing in it is delivered"
INSIDE = "looks into the tables or the engines of the database"
LANES = "is about lanes, runs or their order beside rows; what SQS delivers is a row each, in the order of due times"

NOT_THROUGH_SQS: dict[str, str] = {
    **{
        f"tests/conformance/test_{name}.py": TOPICS
        for name in (
            "async_topics",
            "canceled_groups",
            "catching_up",
            "dead_groups",
            "fed_groups",
            "group_events",
            "group_list",
            "group_status",
            "groups",
            "liveness",
            "retention",
            "retention_at_random",
            "seek",
            "topic_depth",
            "topic_pitfalls",
            "topics",
        )
    },
    "tests/runtime/test_subscribers.py": TOPICS,
    **{f"tests/conformance/test_{name}.py": NO_QUEUE for name in ("crew", "leaders", "migrations", "seats")},
    "tests/conformance/test_tenants.py": "is about who sees what, call by call, whoever delivers",
    **{
        f"tests/conformance/test_{name}.py": INSIDE
        for name in ("load", "moves", "plans", "rebase", "row_states", "threads")
    },
    **{
        f"tests/conformance/{name}": LANES
        for name in (
            "test_claim.py::test_the_limit_holds_over_rows_and_lanes_together",
            "test_claim.py::test_a_due_row_beats_the_lane_of_its_own_priority",
            "test_settle.py::test_a_run_longer_than_a_byte_of_bits_may_be_acked_in_parts",
            "test_settle.py::test_extending_one_member_extends_its_run",
            "test_expiry.py::test_a_long_run_comes_back_in_turns",
            "test_expiry.py::test_sweeping_twice_is_sweeping_once",
            "test_maintain.py::test_a_long_run_of_history_goes_in_turns",
            "test_limits.py::test_runs_and_rows_share_the_slots",
            "test_limits_of_keys.py::test_a_run_ends_before_the_first_message_that_has_a_key",
            "test_purge_peek_stats.py::test_peek_shows_what_the_next_claims_will_get",
            "test_purge_peek_stats.py::test_peek_shows_no_more_than_it_is_asked_for",
            "test_purge_peek_stats.py::test_purge_leaves_claims_in_progress",
        )
    },
    "tests/conformance/test_claim.py::test_clients_that_claim_at_the_same_time_share_the_work": (
        "a claim that does not wait may find nothing while all pointers are in the hands of others, who give some back"
    ),
    "tests/conformance/test_limits_of_keys.py::test_messages_from_before_the_limit_keep_it_too": (
        "one without a key in a lane is claimed beside rows of full keys; if it is a row too, with the next claim"
    ),
    "tests/conformance/test_enqueue.py::"
    "test_many_can_be_more_than_a_statement_has_room_for_and_nobody_sees_a_part_of_them": (
        "ten thousand messages, by tens, through an emulator that takes 7 ms a call"
    ),
    "tests/runtime/test_outcomes.py::test_many_fast_messages_are_all_done_once": "three thousand, likewise",
    "tests/conformance/test_stats.py::test_processing_time_of_thousands_at_once": "six thousand, likewise",
    **{
        f"tests/runtime/test_pace.py::{name}": "is about the size of runs: what SQS delivers has a lease each, by tens"
        for name in ("test_quick_handlers_get_runs_of_hundreds", "test_a_slow_one_beside_quick_ones_keeps_nothing_back")
    },
    "tests/runtime/test_dispatch.py": "is about what was claimed together, by the fifty; SQS delivers by tens",
    "tests/conformance/test_enqueue.py::test_many_are_stored_in_their_order": (
        "five hundred by one claim, which has twenty seconds for it: on a busy machine too few"
    ),
    "tests/conformance/test_hand_back.py::test_a_bulk_nack_judges_each_claim_by_its_own_queue": (
        "a row on its last attempt is claimed alone, and the first attempt of one of its queues is the last"
    ),
}
"""Files and tests that say nothing about delivery through SQS, or cannot be said of it, and why."""

ROOT = Path(__file__).parents[1]


def further_stores(module: str, test: str) -> list[str]:
    """Stores beyond `STORES` for a test."""
    pooled = ["postgres-pooled"] if module in POOLED else []
    return [*pooled, *(THROUGH_SQS if goes_through_sqs(module, test) else [])]


def goes_through_sqs(module: str, test: str) -> bool:
    """Whether a test of a queue or the runtime also runs with delivery through SQS, in this run."""
    if not module.startswith(("tests/conformance/", "tests/runtime/")):
        return False
    wanted = module in MATTER_MOST or os.environ.get("HOLDFAST_SQS") == "all"
    return wanted and module not in NOT_THROUGH_SQS and f"{module}::{test}" not in NOT_THROUGH_SQS
