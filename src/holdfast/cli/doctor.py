"""`holdfast doctor`: a look at a database, and what to do."""

from __future__ import annotations

import click

from holdfast import Holdfast
from holdfast.cli.options import PATIENCE, db_option, json_option
from holdfast.cli.tables import show_findings, show_json
from holdfast.client.client import internals
from holdfast.sqs import health


@click.command()
@db_option
@json_option
def doctor(url: str, as_json: bool) -> int:
    """Look at a database and say what is wrong with it, and what to do. Nothing is changed.

    The exit code is 1 if there is a problem, 0 if there is none or only advice.

    \b
        holdfast doctor --db sqlite:///work.db
        holdfast doctor --db postgresql://user@host/database --json
    """
    with Holdfast(url, patience=PATIENCE) as hf:
        findings = internals(hf).store.health.look()
        if any(finding.check == "queues" for finding in findings):  # Otherwise they could not be looked at.
            findings += health.look(internals(hf).transport.through_sqs().sqs, internals(hf).store.health.through_sqs())
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        show_json(findings)
    else:
        show_findings(findings)
        advice = sum(finding.state == "advice" for finding in findings)
        click.echo(f"\nproblems: {problems}, advice: {advice}")
    return 1 if problems else 0
