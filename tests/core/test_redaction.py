"""Passwords in URLs: whatever is wrong with a URL, nobody repeats them."""

import pytest

from holdfast.core.redaction import discreet, without_password
from holdfast.settings import Settings

pytestmark = pytest.mark.unit

URLS = [
    "postgresql://u:secret@[::1/db",
    "postgresql://:secret@h/db",
    "postgresql://u:se%zzcret@h/db",
    "postgresql://u:se%40cret@h/db",
    "postgresql://u:se:cret@h/db",
    "postgresql://u:se cret@h/db",
    "postgresql://u:se#cret@h/db",
    "postgresql://u:se?cret@h/db",
    "postgresql://u:top@secret@h/db",
    "postgresql://u:top/secret@h/db",
    "postgresql://u:top/se?cret@h/db",
    "postgresql://u:secret@h/db?application_name=a@b",
    "postgresql://h/db?user=u&password=secret&x=1",
    "postgresql://h/db?sslpassword=secret",
    "postgresql://u:secret@h/db?password=secret",
    "postgresql://h/db?pooler=transaction&direct=postgresql%3A%2F%2Fu%3Asecret%40h%2Fdb",
    "postgresql://h/db?pooler=transaction&direct=postgresql%3A%2F%2Fu%3Ase%2540cret%40h%2Fdb",
]


@pytest.mark.parametrize("url", URLS)
def test_no_password_is_repeated(url: str) -> None:
    assert "cret" not in discreet(f'bad URI: "{url}"', url)
    assert "cret" not in without_password(url)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:top@secret@h/db", "failed to resolve host 'secret@h'"),
        ("postgresql://u:top/secret@h/db", 'invalid port: "top/secret"'),
        ("postgresql://u:top/secret@h/db", 'invalid path: "secret@h/db"'),
        ("postgresql://u:se%zzcret@h/db", 'invalid token: "se%zzcret"'),
    ],
)
def test_half_a_password_is_not_repeated_either(url: str, said: str) -> None:
    assert "cret" not in discreet(said, url)


def test_the_decoded_form_is_not_repeated_either() -> None:
    assert discreet("for se:cret", "postgresql://u:se%3Acret@h/db") == "for ***"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u@[::1]:5432/db",
        "postgresql://h:5432/db",
        "postgresql://h:5432/db?application_name=a@b",
        "postgresql://[::1]:5432/db?application_name=a@b",
        "postgresql:",
    ],
)
def test_what_is_no_password_is_left_alone(url: str) -> None:
    assert discreet(f"cannot reach {url}", url) == f"cannot reach {url}"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("work.db", "work.db"),
        ("mysql://host/db", "mysql://host/db"),
        ("mysql://u:secret@host/db", "mysql:…"),
        ("mysql:u:secret@host/db", "mysql:…"),
        ("mysql://u:secret@[::1/db", "mysql:…"),
        ("u:secret@host/db", "u:…"),
        ("host=h password=secret", "…"),
        (7, "7"),
    ],
)
def test_what_is_no_url_of_ours_is_shown_without_a_password(url: object, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize("url", URLS)
def test_settings_can_be_logged(url: str) -> None:
    assert "cret" not in repr(Settings(url))
    assert "cret" not in str(Settings(url))
