"""The files of deploy/: their command lines are ours, they agree with each other, and what can run here does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import psycopg
import pytest
import yaml

from holdfast import Holdfast
from holdfast.cli.main import holdfast as cli
from holdfast.core.duration import seconds
from holdfast.server.tokens import new_token
from tests.acceptance.children import GUARD, ROOT
from tests.cli.commands import command
from tests.server.serving.served import Served
from tests.waiting import eventually

DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS: list[dict[str, Any]] = [
    manifest
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
    if file.name != "kustomization.yaml"
]
UNITS = {file.name: file.read_text() for file in sorted((DEPLOY / "systemd").iterdir())}
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
OURS = {name: one for name, one in COMPOSE["services"].items() if name != "postgres"}
PORT = "8700"


def found(kind: str, name: str) -> dict[str, Any]:
    [manifest] = [one for one in MANIFESTS if (one["kind"], one["metadata"]["name"]) == (kind, name)]
    return manifest


def pods() -> dict[str, dict[str, Any]]:
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in MANIFESTS
        if one["kind"] in {"Deployment", "Job"}
    }


def container(pod: dict[str, Any]) -> dict[str, Any]:
    [only] = pod["containers"]
    return dict(only)


def command_lines() -> dict[str, list[str]]:
    """All of ours, without `holdfast` itself."""
    [entry] = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE)
    [usual] = re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)
    assert yaml.safe_load(entry)[-1] == "holdfast"
    lines = {"Dockerfile": yaml.safe_load(usual)}
    lines |= {f"compose {name}": one["command"] for name, one in OURS.items()}
    lines |= {f"kubernetes {name}": container(pod)["args"] for name, pod in pods().items()}
    for name, unit in UNITS.items():
        for key, line in re.findall(r"^(Exec\w+)=/opt/holdfast/bin/holdfast (.*)$", unit, re.MULTILINE):
            lines[f"{name} {key}"] = shlex.split(line)
    return lines


@pytest.mark.parametrize("where", command_lines())
def test_its_command_line_is_one_of_ours(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DB", "postgresql://user@host/name")
    name, *args = command_lines()[where]
    if name == "--help":
        return
    group = click.Context(cli, info_name="holdfast")
    chosen = cli.get_command(group, name)
    assert chosen is not None
    chosen.make_context(name, args, parent=group)


def test_a_wrong_command_line_would_be_noticed() -> None:
    group = click.Context(cli, info_name="holdfast")
    chosen = cli.get_command(group, "work")
    assert chosen is not None
    with pytest.raises(click.NoSuchOption):
        chosen.make_context("work", ["handlers:hf", "--gracce=30s"], parent=group)


def test_every_process_has_more_time_to_stop_than_its_grace() -> None:
    times = {f"compose {name}": OURS[name]["stop_grace_period"] for name in ("server", "worker")}
    times |= {
        f"kubernetes {name}": f"{pod['terminationGracePeriodSeconds']}s"
        for name, pod in pods().items()
        if name != "holdfast-migrate"
    }
    for name, unit in UNITS.items():
        [stop] = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        times[f"{name} ExecStart"] = f"{stop}s"
    assert len(times) == 6
    for where, time in times.items():
        line = " ".join(command_lines()[where]).replace("=", " ")
        [grace] = re.findall(r"--grace (\S+)", line)
        assert seconds(time, "time") >= seconds(grace, "grace") + 20, where


def test_units_notify_and_only_the_main_process_gets_sigterm() -> None:
    for unit in UNITS.values():
        for line in ("Type=notify", "NotifyAccess=main", "WatchdogSec=30", "KillMode=mixed", "Restart=on-failure"):
            assert f"\n{line}\n" in unit


def test_images_users_ports_and_files_agree() -> None:
    image = f"holdfast:{VERSION}"
    assert {one["image"] for one in OURS.values()} | {container(pod)["image"] for pod in pods().values()} == {image}
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    [tag] = kustomization["images"]
    assert all((DEPLOY / "kubernetes" / file).exists() for file in kustomization["resources"])
    assert f"{tag['name']}:{tag['newTag']}" == image
    [user] = re.findall(r"^USER (\d+):\1$", DOCKERFILE, re.MULTILINE)
    assert {str(pod["securityContext"]["runAsUser"]) for pod in pods().values()} == {user}

    server = container(pods()["holdfast-server"])
    assert f"EXPOSE {PORT}\n" in DOCKERFILE
    assert f"'127.0.0.1', {PORT}," in DOCKERFILE
    assert OURS["server"]["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    assert [str(port["containerPort"]) for port in server["ports"]] == [PORT]
    for where, line in command_lines().items():
        if line[0] == "serve":
            assert f"--port {PORT}" in " ".join(line).replace("=", " "), where

    [mount] = [one["mountPath"] for one in server["volumeMounts"] if one["name"] == "tokens"]
    assert f"--tokens={mount}/tokens" in server["args"]
    assert "--tokens=/run/secrets/tokens" in OURS["server"]["command"]
    for service in OURS.values():
        assert set(service["secrets"]) <= set(COMPOSE["secrets"])
        assert service["environment"]["PGPASSWORD_FILE"] == "/run/secrets/db_password"


def test_root_file_systems_are_read_only_and_nobody_is_root() -> None:
    for service in COMPOSE["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
    for pod in pods().values():
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container(pod)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_secrets_that_are_asked_for_are_in_the_example() -> None:
    asked = set()
    for pod in pods().values():
        asked |= {
            (ref["name"], ref["key"]) for env in container(pod)["env"] for ref in [env["valueFrom"]["secretKeyRef"]]
        }
    [connection] = found("TriggerAuthentication", "holdfast-keda")["spec"]["secretTargetRef"]
    asked |= {(connection["name"], connection["key"]), ("holdfast", "tokens")}
    given = {
        (one["metadata"]["name"], key) for one in MANIFESTS if one["kind"] == "Secret" for key in one["stringData"]
    }
    assert asked == given


def test_what_the_image_copies_is_not_ignored() -> None:
    wanted = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
        if not word.startswith("--")
    }
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert wanted == kept
    assert all((ROOT / path).exists() for path in wanted)


def test_the_entry_point_reads_the_password_and_becomes_the_command(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("with space and $\n")
    entry = subprocess.Popen(
        [DEPLOY / "entrypoint.sh", sys.executable, "-c", "import os; print(os.getpid(), os.environ['PGPASSWORD'])"],
        env={**os.environ, "PGPASSWORD_FILE": str(tmp_path / "password")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert entry.communicate()[0] == f"{entry.pid} with space and $\n"


# --- the example, at work ---------------------------------------------------------------------------------------------


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Served]:
    """The server as compose.yaml starts it, but for where it listens."""
    shutil.copytree(DEPLOY / "app", tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokens").write_text(new_token("anna", "admin")[1].line() + "\n")
    serve, spec, *options = OURS["server"]["command"]
    assert (serve, spec) == ("serve", "app.holdfast")
    here = [f"--db=sqlite:///{tmp_path}/app.db", "--host=127.0.0.1", "--port=0", f"--tokens={tmp_path}/tokens"]
    kept = [one for one in options if not one.startswith(("--host", "--port", "--tokens"))]
    served = Served(tmp_path, *kept, *here, ORDERS_SECRET="secret")
    yield served
    served.end()


def test_the_example_is_healthy_and_works(example: Served, tmp_path: Path) -> None:
    example.ready()
    [check] = re.findall(r"^ +CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    python, dash_c, program = yaml.safe_load(check)
    assert python == "python"
    check_it = [sys.executable, dash_c, program.replace(PORT, str(example.port))]
    eventually(lambda: subprocess.run(check_it).returncode == 0, "it is healthy: a check has no patience")
    assert subprocess.run([sys.executable, dash_c, program.replace(PORT, "1")], capture_output=True).returncode != 0

    def probed(path: str, headers: dict[str, str]) -> int:
        return httpx.get(example.address + path, headers=headers, timeout=GUARD).status_code

    server = container(pods()["holdfast-server"])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asks = server[probe]["httpGet"]
        headers = {one["name"]: one["value"] for one in asks["httpHeaders"]}
        eventually(lambda asks=asks, headers=headers: probed(asks["path"], headers) == 200, probe)  # type: ignore[misc]
    assert probed("/health", {"Host": f"10.1.2.3:{PORT}"}) == 421

    url = f"sqlite:///{tmp_path}/app.db"
    with Holdfast(url, strict=True) as hf:
        sent = hf.enqueue("emails", {"to": "ada@example.com"}).id
    worker = subprocess.Popen(
        command(*OURS["worker"]["command"]),
        cwd=tmp_path,
        env={**os.environ, "HOLDFAST_DB": url},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    assert worker.stdout.readline() == f"sending an email for {sent}\n"
    worker.terminate()
    worker.communicate(timeout=60)
    assert worker.returncode == 0


# --- scaling by depth -------------------------------------------------------------------------------------------------


def depth_query() -> str:
    [trigger] = found("ScaledObject", "holdfast-worker")["spec"]["triggers"]
    assert trigger["type"] == "postgresql"
    return str(trigger["metadata"]["query"])


def test_the_query_counts_what_is_due_or_worked_on(postgres_url: str) -> None:
    page = (ROOT / "docs" / "howto" / "deploy.md").read_text()
    grants = "".join(re.findall(r"^GRANT .* TO keda;$", page, re.MULTILINE))
    with Holdfast(postgres_url) as hf, psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE ROLE keda")
        connection.execute(grants.encode())
        connection.execute("SET ROLE keda")

        def depth() -> int:
            row = connection.execute(depth_query().encode()).fetchone()
            assert row is not None
            [count] = row
            assert isinstance(count, int)
            return count

        assert depth() == 0, "there is no such queue"
        hf.queue("emails", max_attempts=2, backoff=None)
        hf.enqueue("other", "of another queue")
        hf.acting_as(tenant="acme").enqueue("emails", "of another tenant")
        assert depth() == 0
        hf.enqueue_many("emails", list(range(10)))
        assert depth() == 10, "in a lane"
        hf.enqueue("emails", "later", delay=3600)
        assert depth() == 10, "one is delayed"
        first, second, third, *held = hf.claim("emails", n=6)
        assert depth() == 10, "six are worked on"
        first.ack()
        second.dead_letter("poison")
        assert depth() == 8, "two have ended"
        third.nack("again", delay=0)
        assert depth() == 8, "one is due again, as a row"
        [again] = [claim for claim in hf.claim("emails", n=1) if claim.attempt == 2]
        assert depth() == 8, "and worked on"
        again.release()
        held[0].nack("not now", delay=3600)
        assert depth() == 7, "one backs off"
        stats = hf.stats("emails")
        assert depth() == stats.pending + stats.processing
        connection.rollback()
