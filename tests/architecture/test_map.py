"""ARCHITECTURE.md is a map: what it names is there, and it stays one page."""

import re

from tests.architecture.source import PACKAGE, ROOT

MOST_LINES = 100


def missing(text: str) -> list[str]:
    """Paths in backquotes, relative to the package, that do not exist; `<database>` stands for both."""
    paths = re.findall(r"`([a-z_<>]+/[a-z_/<>.]*)(?:: \w+)?`", text)
    both = [path.replace("<database>", one) for path in paths for one in ("sqlite", "postgres")]
    known = [PACKAGE, PACKAGE / "store", PACKAGE / "worker", PACKAGE / "server", ROOT]
    return sorted({path for path in both if not any((folder / path).exists() for folder in known)})


def test_what_the_map_names_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    assert missing(text) == []
    assert len(text.splitlines()) <= MOST_LINES


def test_a_wrong_path_is_caught() -> None:
    assert missing("`store/<database>/claim.py: insert`, `worker/gate.py` and `sql/shared/`") == []
    assert missing("`store/<database>/wal.py` and `runtime/gate.py`") == ["runtime/gate.py", "store/postgres/wal.py"]
