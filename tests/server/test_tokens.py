"""Bearer tokens: kept as hashes, for a role and a tenant, and over when they say so."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.server.tokens import Tokens, enough, load_tokens, new_token, read_token

pytestmark = pytest.mark.above_the_stores

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def test_a_token_is_found_by_its_text_alone() -> None:
    text, token = new_token("ci", "operate", "shop")
    other, _ = new_token("other", "admin")
    tokens = Tokens([token])
    assert tokens.find(text.encode(), NOW) == token
    assert tokens.find(other.encode(), NOW) is None
    assert tokens.find(b"", NOW) is None
    assert tokens.find(text.encode()[:-1], NOW) is None
    assert tokens.find(text.encode() + b"x" * 1000, NOW) is None


def test_a_token_ends_when_it_says() -> None:
    text, token = new_token("ci", "read", expires=NOW + timedelta(seconds=1))
    assert Tokens([token]).find(text.encode(), NOW) == token
    assert Tokens([token]).find(text.encode(), NOW + timedelta(seconds=1)) is None


def test_what_is_stored_is_a_hash_and_reads_back() -> None:
    text, token = new_token("ci", "read", "shop", NOW)
    assert text not in token.line()
    assert text not in repr(token)
    assert token.digest.hex() not in repr(token)
    assert read_token(token.line()) == token
    everywhere = new_token("all", "admin")[1]
    assert read_token(everywhere.line()).tenant is None


def test_a_file_and_a_variable_are_read_together(tmp_path: Path) -> None:
    (first, one), (second, two) = new_token("one", "read"), new_token("two", "admin")
    file = tmp_path / "tokens"
    file.write_text(f"# operators\n\n{one.line()}\n")
    tokens = load_tokens(str(file), "TOKENS", {"TOKENS": f"{two.line()};"})
    assert tokens is not None
    assert len(tokens) == 2
    assert tokens.find(first.encode(), NOW) == one
    assert tokens.find(second.encode(), NOW) == two


def test_no_file_and_no_variable_is_no_auth() -> None:
    assert load_tokens(None, None) is None


@pytest.mark.parametrize("text", ["", "# nobody\n"])
def test_a_place_without_tokens_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(text)
    with pytest.raises(InvalidInput, match="no token"):
        load_tokens(str(file))
    with pytest.raises(InvalidInput, match="no token"):
        load_tokens(None, "TOKENS", {"TOKENS": text})
    with pytest.raises(InvalidInput, match="no token"):
        load_tokens(None, "TOKENS", {})


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_tokens(str(tmp_path / "none"))


def test_a_token_in_place_of_its_hash_is_refused_and_not_quoted() -> None:
    text, _ = new_token("ci", "read")
    with pytest.raises(InvalidInput) as refusal:
        read_token(f"ci read * {text}")
    assert text not in str(refusal.value)


@pytest.mark.parametrize(
    "line", ["ci", "ci owner * {}", "ci read {}", "c/i read * {}", "ci read a/b {}", "a read * {} soon"]
)
def test_a_bad_line_is_refused(line: str) -> None:
    with pytest.raises(InvalidInput):
        read_token(line.format("0" * 64))


def test_two_tokens_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidInput, match="two tokens"):
        Tokens([new_token("ci", "read")[1], new_token("ci", "admin")[1]])


def test_each_role_may_do_what_those_before_it_may() -> None:
    assert [enough("operate", needed) for needed in ("read", "operate", "admin")] == [True, True, False]
