"""What users install: the wheel and the sdist hold what they should, and the wheel works where nothing else is."""

import os
import re
import shutil
import tarfile
import tomllib
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.pages import blocks
from tests.packaging.environments import ROOT, Environment, build

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SOURCE = ROOT / "src" / "holdfast"


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel and what it depends on, without any extra."""
    environment = Environment(tmp_path_factory.mktemp("bare") / "env")
    environment.borrow(PROJECT["dependencies"])
    environment.install("--no-deps", "--no-index", str(wheel))
    return environment


def contents(wheel: Path) -> dict[str, bytes]:
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if not name.endswith("/RECORD")}


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    there = {path.relative_to(SOURCE.parent) for path in SOURCE.rglob("*") if path.is_file()}
    expected = {str(path) for path in there if "__pycache__" not in path.parts}
    assert {"holdfast/py.typed", "holdfast/store/sql/shared/lanes.sql"} <= expected
    about = f"holdfast-{PROJECT['version']}.dist-info"
    added = {f"{about}/{name}" for name in ("METADATA", "WHEEL", "entry_points.txt", "licenses/LICENSE")}
    assert set(contents(wheel)) == expected | added


def test_the_sdist_builds_the_same_wheel(built: Path, wheel: Path, tmp_path: Path) -> None:
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / f"holdfast-{PROJECT['version']}"
    assert {"tests", "bench", "docs", "examples", "dev.py", "CHANGELOG.md"} <= set(os.listdir(source))
    build(source, tmp_path / "again", "wheel")
    assert contents(tmp_path / "again" / wheel.name) == contents(wheel)


def test_the_metadata_says_what_the_documentation_says(wheel: Path) -> None:
    text = contents(wheel)[f"holdfast-{PROJECT['version']}.dist-info/METADATA"].decode()
    about = Parser().parsestr(text)
    classifiers = about.get_all("Classifier") or []
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    claimed = [name.rpartition(" ")[2] for name in classifiers if re.search(r"Python :: 3\.\d+$", name)]
    assert claimed == re.findall(r"^\| Python (3\.\d+) \| (?!untested)", page, re.MULTILINE)
    systems = [name.rpartition(" ")[2] for name in classifiers if name.startswith("Operating System")]
    tested = re.findall(r"^\| (\w+) \| (?!untested|refused)", page, re.MULTILINE)
    assert systems == [name for name in tested if name in ("Linux", "macOS", "Windows")] == ["Linux"]
    assert about["Requires-Python"] == f">={claimed[0]}"
    assert set(about.get_all("Provides-Extra") or []) == {"otel", "postgres", "server", "sqs"}


def test_a_clean_environment_runs_the_first_example(bare: Environment, tmp_path: Path) -> None:
    version = bare.run("holdfast", "--version", folder=tmp_path)
    assert version.stdout.strip() == f"holdfast {PROJECT['version']}", version.stderr
    first = next(block for block in blocks((ROOT / "README.md").read_text()) if block.language == "python")
    (tmp_path / "mail.py").write_text(first.text)
    program = "from mail import hf; [claim] = hf.claim('emails'); claim.ack(); print(claim.message.body['to'])"
    answer = bare.run("python", "-c", f"import holdfast; print(holdfast.__file__); {program}", folder=tmp_path)
    assert answer.stderr == ""
    place, address = answer.stdout.split()
    assert Path(place).is_relative_to(bare.folder)
    assert address == "ada@example.com"


QUEUE = "from holdfast import Holdfast; hf = Holdfast('sqlite:///w.db'); hf.queue('a', delivery='sqs', sqs_queue='q')"
WITHOUT = {
    "postgres": "from holdfast import Holdfast; Holdfast('postgresql://nobody@localhost/none')",
    "sqs": f"{QUEUE}; hf.enqueue('a', 1); hf.claim('a')",
    "otel": "import holdfast.telemetry",
    "server": "from holdfast.cli.main import main; sys.argv[1:] = ['serve', 'app.holdfast']; sys.exit(main())",
}
"""Extra → a program that needs it."""


@pytest.mark.parametrize("extra", WITHOUT)
def test_a_missing_extra_is_named(bare: Environment, tmp_path: Path, extra: str) -> None:
    shutil.copy(ROOT / "examples" / "incidents" / "app.holdfast", tmp_path)
    answer = bare.run("python", "-c", f"import sys; {WITHOUT[extra]}", folder=tmp_path)
    assert answer.returncode == 1
    assert f"pip install 'holdfast[{extra}]'" in answer.stderr.splitlines()[-1]
