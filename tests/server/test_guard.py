"""What stands before every route: names, origins, headers, tokens, and errors that tell nothing."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import httpx
import pytest
from fastapi import APIRouter, Depends

from holdfast import Holdfast
from holdfast.errors import InvalidInput
from holdfast.server.app import create_app
from holdfast.server.auth import Access, require
from holdfast.server.guard import Hosts, is_foreign
from holdfast.server.tokens import Tokens, new_token
from tests.server.servers import Running, hook, running

pytestmark = pytest.mark.above_the_stores

PATHS = ["/hook/orders", "/admin/look", "/admin/act", "/openapi.json", "/nowhere", "/health"]


def routers() -> list[APIRouter]:
    router = APIRouter()

    @router.get("/health")
    def health() -> dict[str, bool]:
        return {"ok": True}

    @router.get("/admin/look")
    def look(access: Annotated[Access, Depends(require("read"))]) -> dict[str, Any]:
        access.client.queue(f"seen-{access.role}")
        return {"name": access.name, "tenant": access.tenant, "queues": access.client.queues.list()}

    @router.post("/admin/act")
    def act(access: Annotated[Access, Depends(require("operate"))], n: int = 0) -> dict[str, str]:
        if n == 1:
            raise RuntimeError("a secret in a stack trace")
        return {"name": access.name, "actor": access.client.actor}

    @router.delete("/admin/act")
    def delete(access: Annotated[Access, Depends(require("admin"))]) -> dict[str, bool]:
        return {"ok": True}

    return [router]


@pytest.fixture(scope="module")
def open_server(shared_hf: Holdfast) -> Iterator[Running]:
    with running(shared_hf, hook(), routers=routers()) as found:
        yield found


TEXTS: dict[str, str] = {}


@pytest.fixture(scope="module")
def server(shared_hf: Holdfast) -> Iterator[Running]:
    """With tokens for each role, one of another tenant, and one that is over."""
    made = {
        "reader": new_token("reader", "read"),
        "operator": new_token("operator", "operate"),
        "boss": new_token("boss", "admin"),
        "shop": new_token("shop", "admin", "shop"),
        "late": new_token("late", "admin", None, datetime(2020, 1, 1, tzinfo=UTC)),
    }
    TEXTS.update({name: text for name, (text, _) in made.items()})
    with running(shared_hf, hook(), routers=routers(), tokens=Tokens(token for _, token in made.values())) as found:
        yield found


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TEXTS[name]}"}


def code(response: httpx.Response) -> tuple[int, str]:
    assert response.headers["content-type"] == "application/json"
    assert response.json()["error"].keys() >= {"code", "message"}
    return response.status_code, response.json()["error"]["code"]


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        *(None, b"", b"Bearer", b"Bearer wrong", b"Bearer \xff\xfe", b"Basic YTpi", b"bearer\ttoken"),
        *(b"Bearer %(boss)s x", b"Bearer x%(boss)s", b"%(boss)s", b"Basic %(boss)s", b"Bearer %(late)s"),
    ],
)
@pytest.mark.parametrize("path", ["/admin/look", "/openapi.json"])
def test_without_a_good_token_every_route_is_401(server: Running, path: str, value: bytes | None) -> None:
    texts = {name.encode(): text.encode() for name, text in TEXTS.items()}
    filled = value % texts if value and b"%(" in value else value
    headers = [] if filled is None else [(b"authorization", filled)]
    response = server.http.get(path, headers=headers)
    assert code(response) == (401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_token_in_the_address_or_sent_twice_does_not_count(server: Running) -> None:
    for name in ("token", "access_token", "authorization"):
        assert server.http.get("/admin/look", params={name: TEXTS["boss"]}).status_code == 401
    twice = [(b"authorization", bearer("boss")["authorization"].encode())] * 2
    assert server.http.get("/admin/look", headers=twice).status_code == 401
    assert server.http.get("/admin/look", headers={"cookie": f"token={TEXTS['boss']}"}).status_code == 401


@pytest.mark.parametrize(
    ("name", "look", "act", "delete"), [("reader", 200, 403, 403), ("operator", 200, 200, 403), ("boss", 200, 200, 200)]
)
def test_each_role_may_do_its_part(server: Running, name: str, look: int, act: int, delete: int) -> None:
    found = [
        server.http.get("/admin/look", headers=bearer(name)).status_code,
        server.http.post("/admin/act", headers=bearer(name)).status_code,
        server.http.delete("/admin/act", headers=bearer(name)).status_code,
    ]
    assert found == [look, act, delete]


def test_a_token_of_a_tenant_sees_that_tenant_only(server: Running) -> None:
    server.hf.queue("ours")
    seen = server.http.get("/admin/look", headers=bearer("shop")).json()
    assert (seen["tenant"], seen["queues"]) == ("shop", ["seen-admin"])
    assert server.http.get("/admin/look", params={"tenant_id": "shop"}, headers=bearer("shop")).status_code == 200
    refused = server.http.get("/admin/look", params={"tenant_id": "default"}, headers=bearer("shop"))
    assert code(refused) == (403, "forbidden")
    assert (
        server.http.get("/admin/look", params={"tenant_id": "shop"}, headers=bearer("boss")).json()["tenant"] == "shop"
    )
    assert "ours" in server.http.get("/admin/look", headers=bearer("boss")).json()["queues"]
    for bad in ("", "a/b", "x" * 1000, "a\0b"):
        found = server.http.get("/admin/look", params={"tenant_id": bad}, headers=bearer("boss"))
        assert code(found) == (422, "invalid")


def test_the_name_of_the_token_stands_in_the_audit(server: Running) -> None:
    assert server.http.post("/admin/act", headers=bearer("operator")).json() == {
        "name": "operator",
        "actor": "operator",
    }


def test_a_hook_needs_its_signature_and_no_token(server: Running) -> None:
    assert server.post("orders").status_code == 202
    assert server.post("orders", x_signature="-", **bearer("boss")).status_code == 401


def test_health_is_open_and_says_nothing(server: Running) -> None:
    assert server.http.get("/health").json() == {"ok": True}


def test_a_route_without_a_role_is_refused_when_the_app_is_made(hf: Holdfast) -> None:
    router = APIRouter()

    @router.get("/admin/forgotten")
    def forgotten() -> None: ...

    with pytest.raises(InvalidInput, match="/admin/forgotten is open"):
        create_app(hf, routers=[router])


def test_without_tokens_whoever_is_here_is_the_operator(open_server: Running) -> None:
    assert open_server.http.delete("/admin/act").status_code == 200
    assert open_server.http.post("/admin/act").json()["actor"] == "local"


# --- names and origins ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "127.0.0.1.evil.com",
        "localhost.evil.com",
        "0.0.0.0",
        "x@localhost",
        "local host",
        "",
        "é",
        "localhost:80:90",
    ],
)
@pytest.mark.parametrize("path", PATHS)
def test_dns_rebinding_a_foreign_host_is_refused_on_every_route(open_server: Running, path: str, host: str) -> None:
    response = open_server.http.get(path, headers=[(b"host", host.encode("latin-1"))])
    assert response.status_code in (400, 421)
    assert code(response)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1", "[::1]", "[::1]:99", "localhost."])
def test_our_own_names_are_answered(open_server: Running, host: str) -> None:
    assert open_server.http.get("/health", headers={"host": host}).status_code == 200


def test_a_missing_or_second_host_is_400(open_server: Running) -> None:
    for hosts in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        answer = open_server.raw(b"GET /health HTTP/1.1\r\n" + hosts + b"Connection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400 ")


def test_hosts_can_be_named_and_wild() -> None:
    hosts = Hosts(["hooks.example.com", "*.shop.test", "::1"])
    for good in (b"hooks.example.com", b"HOOKS.example.com:443", b"a.shop.test", b"a.b.shop.test", b"[::1]:80"):
        assert hosts.admit(good)
    for bad in (
        b"example.com",
        b"xhooks.example.com",
        b"shop.test",
        b"evilshop.test",
        b"localhost",
        b"::1",
        b"*",
        b"a.shop.test.evil",
    ):
        assert not hosts.admit(bad)
    assert Hosts(["*"]).admit(b"anything")
    assert not Hosts(["*"]).admit(b"any thing")
    assert not Hosts([]).admit(b"localhost")
    for bad in ("", "a b", "http://x", "a:80", "*x"):
        with pytest.raises(InvalidInput):
            Hosts([bad])


CROSS = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "nonsense"},
    {"origin": "https://evil.com"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://localhost.evil.com"},
    {"origin": "http://localhost:1"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.com"},
]


@pytest.mark.parametrize("headers", CROSS)
@pytest.mark.parametrize("path", ["/hook/orders", "/admin/act", "/nowhere"])
def test_csrf_an_unsafe_method_from_another_site_is_403(
    open_server: Running, path: str, headers: dict[str, str]
) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        response = open_server.http.request(method, path, headers=headers)
        assert code(response) == (403, "foreign_origin")


@pytest.mark.parametrize(
    "headers", [{}, {"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin", "origin": "{url}"}]
)
def test_programs_and_our_own_pages_pass(open_server: Running, headers: dict[str, str]) -> None:
    filled = {name: text.format(url=open_server.url) for name, text in headers.items()}
    assert open_server.http.post("/admin/act", headers=filled).status_code == 200


def test_what_only_looks_may_come_from_anywhere() -> None:
    assert not is_foreign("GET", b"cross-site", b"https://evil.com", b"localhost")
    assert is_foreign("POST", b"cross-site", None, b"localhost")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", ["https://evil.com", "null", "http://localhost"])
def test_no_answer_ever_allows_another_origin(open_server: Running, path: str, origin: str) -> None:
    asked = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "x"}
    for method in ("OPTIONS", "GET", "POST"):
        response = open_server.http.request(method, path, headers=asked)
        assert not [name for name in response.headers if name.startswith("access-control")]
        assert response.status_code != 200 or method == "GET"


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_headers_that_keep_browsers_in_check(server: Running, path: str) -> None:
    for headers in ({}, {"host": "evil.com"}, {"sec-fetch-site": "cross-site"}):
        for method in ("GET", "POST", "OPTIONS", "DELETE"):
            response = server.http.request(method, path, headers=headers)
            assert response.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'" in response.headers["content-security-policy"]
            assert "frame-ancestors 'none'" in response.headers["content-security-policy"]
            assert "server" not in response.headers


def test_unknown_routes_and_methods(open_server: Running) -> None:
    assert code(open_server.http.get("/nowhere")) == (404, "not_found")
    wrong = open_server.http.put("/admin/look")
    assert code(wrong) == (405, "method_not_allowed")
    assert wrong.headers["allow"] == "GET"
    assert code(open_server.http.post("/admin/act", params={"n": "x"})) == (422, "invalid")


def test_a_bug_is_500_without_its_trace(open_server: Running) -> None:
    response = open_server.http.post("/admin/act", params={"n": 1})
    assert code(response) == (500, "internal")
    assert "secret" not in response.text
    assert "Traceback" not in response.text
    assert "File" not in response.text


# --- bodies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "DELETE"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/plain", b"{}"),
        ("application/x-www-form-urlencoded", b"a=1"),
        ("application/x-www-form-urlencoded", b""),
        ("multipart/form-data; boundary=x", b"--x--"),
        ("", b"{}"),
        (None, b"{}"),
        (None, [b"{", b"}"]),
    ],
)
def test_what_a_page_of_any_site_can_post_is_415(
    open_server: Running, method: str, kind: str | None, body: bytes | list[bytes]
) -> None:
    headers = {} if kind is None else {"content-type": kind}
    content = body if isinstance(body, bytes) else iter(body)
    answer = open_server.http.request(method, "/admin/act", content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_type")


def test_json_and_nothing_at_all_are_taken(open_server: Running) -> None:
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/merge-patch+json"):
        answer = open_server.http.post("/admin/act", content=b"{}", headers={"content-type": kind})
        assert answer.status_code == 200
    assert open_server.http.post("/admin/act").status_code == 200
    assert open_server.http.get("/admin/look", headers={"content-type": "text/plain"}).status_code == 200


def test_the_document_tells_of_deliveries(open_server: Running) -> None:
    document = open_server.http.get("/openapi.json").json()
    delivery = document["paths"]["/hook/{name}"]["post"]
    assert delivery["operationId"] == "deliver"
    assert {"200", "202", "400", "401", "413", "415", "503"} <= delivery["responses"].keys()
