"""`holdfast token`: the token is shown, its hash is kept."""

from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from holdfast.cli.token import token
from holdfast.server.tokens import Tokens, read_token


def test_the_line_knows_the_token_and_does_not_tell_it() -> None:
    result = CliRunner().invoke(token, ["ci", "--role", "operate", "--tenant", "shop", "--expires", "90d"])
    assert result.exit_code == 0
    text = result.stderr.split()[-1]
    assert text not in result.stdout
    made = read_token(result.stdout.strip())
    assert (made.name, made.role, made.tenant) == ("ci", "operate", "shop")
    now = datetime.now(UTC)
    assert Tokens([made]).find(text.encode(), now) == made
    assert Tokens([made]).find(text.encode(), now + timedelta(days=91)) is None


@pytest.mark.parametrize(
    "arguments", [["a/b"], ["a", "--tenant", "b/c"], ["a", "--expires", "soon"], ["a", "--role", "owner"]]
)
def test_what_makes_no_sense_is_refused(arguments: list[str]) -> None:
    result = CliRunner().invoke(token, arguments)
    assert result.exit_code != 0
    assert result.stdout == ""
