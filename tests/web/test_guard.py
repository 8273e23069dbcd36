"""Attacks: other hosts, other sites, no token, ways out of the store, scripts in every word a user may write."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import pytest
from dashboards import HOST, TOKEN
from sample_run import Sample, write_run

from relaytrain.store import RunStore

pytestmark = pytest.mark.slow

PAGES = (
    "/",
    "/runs/stub-met-1",
    "/runs/stub-met-1/why",
    "/compare?run=stub-met-1&run=stub-met-2",
    "/audit",
    "/scenario",
    "/runs/stub-met-1/report",
    "/runs/stub-met-1/pipeline",
)
DATA = ("/api/runs", "/api/runs/stub-met-1/series", "/api/runs/stub-met-1/replan", "/api/openapi.json")
HOSTS = (
    "evil.example",
    "evil.example:7717",
    "127.0.0.1",
    "127.0.0.1:80",
    "localhost:7717.evil.example",
    "",
    "127.0.0.1:7717:1",
)
SHORT = (("full", "gold", 2), ("medium", "silver", 2), ("small", "bronze", 3))
XSS = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'-alert(1)-'",
    "</title><script>alert(1)</script>",
    "</textarea><script>alert(1)</script>",
    "javascript:alert(1)",
    "{{7*7}}",
    "{% include '/etc/passwd' %}",
    "\u202e<b>",
    "<!--",
    "]]><script>",
    "<style>*{x:expression(alert(1))}</style>",
    "&lt;script&gt;",
    "<a href=//evil.example>",
    '" autofocus onfocus="alert(1)',
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0>",
    "<iframe srcdoc=x>",
    "</script><script>alert(1)//",
    "`${alert(1)}`",
    "<svg><script>alert&#40;1&#41;</script>",
    "<math><mi xlink:href=javascript:alert(1)>",
    "<form action=//evil.example>",
    "<link rel=stylesheet href=//evil.example>",
    "<object data=//evil.example>",
    "<embed src=x>",
    "<x onclick=alert(1)>",
    "\x00<script>",
    "<ScRiPt>alert(1)</sCrIpT>",
)
TRAVERSALS = [
    part.format(way)
    for way in ("../", "..%2f", "%2e%2e/", "%2e%2e%2f", "..%5c", "....//", "..%252f", "%c0%ae%c0%ae/", "..;/", "/..\\")
    for part in (
        "/static/{0}{0}app.py",
        "/runs/{0}{0}etc/passwd",
        "/api/runs/{0}x/series",
        "/static/vendor/{0}{0}{0}serving.py",
    )
]


@pytest.mark.parametrize("path", [*PAGES, *DATA, "/static/house.css", "/nothing"])
def test_without_the_token_nothing_is_shown(client_of, filled, path):
    for answer in (client_of(filled, token=None).get(path), client_of(filled, token="wrong").get(path)):
        assert answer.status_code == 401
        assert "stub-met" not in answer.text


def test_the_token_in_the_address_is_kept_in_a_strict_cookie(client_of, filled):
    client = client_of(filled, token=None)
    answer = client.get("/runs/stub-met-1", params={"token": TOKEN})
    cookie = answer.headers["set-cookie"]
    assert answer.status_code == 200 and TOKEN not in answer.text
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Path=/" in cookie
    assert 'url=/runs/stub-met-1"' in answer.text
    assert client.get("/runs/stub-met-1").status_code == 200
    assert client.get("/", params={"token": "wrong"}).status_code == 401
    for place in ("//evil.example/x", "/\\evil.example"):
        assert "url=/evil.example" in client_of(filled, token=None).get(f"http://{HOST}{place}?token={TOKEN}").text


@pytest.mark.parametrize("host", HOSTS)
def test_another_hosts_name_is_refused(client, host):
    for path in ("/", "/api/runs", "/static/house.css"):
        assert client.get(path, headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:7717"},
        {"origin": "http://127.0.0.1:7717.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
def test_another_sites_page_is_refused(client, headers):
    assert client.get("/api/runs", headers=headers).status_code == 403
    assert client.post("/api/plan", json={"scenario": ""}, headers=headers).status_code == 403
    assert client.post("/scenario", data={"scenario": ""}, headers=headers).status_code == 403


def test_a_link_from_elsewhere_may_be_followed(client):
    opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    assert client.get("/", headers=opened).status_code == 200


def test_a_form_of_another_kind_is_refused(client):
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/octet-stream", ""):
        answer = client.post("/api/plan", content=b'{"scenario": ""}', headers={"content-type": kind})
        assert answer.status_code == 403
    assert client.post("/scenario", data={"scenario": ""}).status_code == 403  # a form always says where it comes from


def test_only_questions_are_answered(client):
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"):
        assert client.request(method, "/api/runs").status_code == 405
    assert client.post("/api/runs", json={}).status_code == 405


def test_too_much_is_refused(client):
    assert (
        client.post("/api/plan", content=b"x" * 1_200_000, headers={"content-type": "application/json"}).status_code
        == 413
    )
    assert client.get("/?q=" + "x" * 5000).status_code == 414
    assert client.get("/", headers={"content-length": "-1"}).status_code == 413


def test_a_flood_is_slowed(client_of, filled):
    client = client_of(filled)
    client.app.bucket.per_second = 0.0
    seen = {client.get("/api/runs/not-there-1/series").status_code for _ in range(260)}
    assert seen == {404, 429}


def test_every_answer_keeps_browsers_to_showing_it(client):
    for path in (*PAGES, *DATA, "/static/house.css", "/nothing", "/runs/not-there-1"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy or "default-src 'none'" in policy
        assert "unsafe-inline" not in policy or "sandbox" in policy
        assert "access-control-allow-origin" not in headers


def test_pages_hold_no_script_and_no_style_of_their_own(client):
    for path in PAGES:
        if path.endswith("/report"):
            continue
        page = client.get(path).text
        assert not re.search(r"<script(?![^>]*\ssrc=\"/static/)", page)
        assert not re.search(r"<[^>]+\s(style|on\w+)=", page)
        assert not re.search(r'(src|href|action)="(https?:)?//', page)


@pytest.mark.parametrize("path", TRAVERSALS)
def test_there_is_no_way_out_of_the_store(client, path):
    answer = client.get(path)
    assert answer.status_code in (400, 404, 421, 422)
    assert "root:" not in answer.text and "import" not in answer.text


@pytest.mark.parametrize(
    "run", ["a" * 41, "UPPERCASE", "short", "has space", "semi;colon", "nul\x00byte", "quickstart.db"]
)
def test_what_is_no_runs_name_is_refused(client, run):
    assert client.get(f"/runs/{quote(run, safe='')}").status_code in (404, 422)


def test_a_link_in_the_place_of_the_database_is_not_followed(client_of, tmp_path, filled):
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "runs.sqlite").symlink_to(filled.folder / "runs.sqlite")
    answer = client_of(RunStore(folder, None)).get("/")  # type: ignore[arg-type]
    assert answer.status_code == 409 and "not followed" in answer.text


def test_whatever_users_write_is_shown_as_words(client_of, tmp_path):
    store = RunStore.open(tmp_path / "runs")
    for number, attack in enumerate(XSS):
        clean = attack.replace("\x00", "")
        rename = {
            word: f"{word}{clean}"
            for word in ("full", "medium", "small", "gold", "edge-2", "killed by signal 9", "loss became non-finite")
        }
        extra = {"planner": clean, "seed": clean, "command": clean, "clock": clean}
        write_run(
            store,
            f"attack-{number:03}",
            Sample(
                legs=SHORT,
                fail_at=4,
                roll_back_at=6,
                name=clean,
                description=clean,
                rename=rename,
                notes=(clean,),
                extra=extra,
            ),
        )
    client = client_of(store)
    for number, attack in enumerate(XSS):
        run = f"attack-{number:03}"
        for path in (f"/runs/{run}", f"/runs/{run}/why", f"/runs/{run}/report", f"/compare?run={run}&run=attack-000"):
            _harmless(client.get(path).text)
        told = next(
            line for line in client.get(f"/api/runs/{run}/stream").text.splitlines() if line.startswith("data: ")
        )
        _harmless("".join(json.loads(told[6:])["parts"].values()))
        _harmless(client.get("/", params={"q": attack.replace("\x00", "")}).text)
        checked = client.post("/api/plan", json={"scenario": attack}).json()
        _harmless(checked["html"])
        page = client.post("/scenario", data={"scenario": attack}, headers={"origin": f"http://{HOST}"}).text
        _harmless(page)
        if number % 8 == 0:
            client.app.bucket.left = 240.0  # this is no flood
    _harmless(client.get("/").text)
    _harmless(client.get("/audit").text)


def _harmless(page: str) -> None:
    from html.parser import HTMLParser

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            named = dict(attrs)
            assert tag not in ("iframe", "object", "embed", "math", "base", "x"), tag
            assert not any(name.startswith("on") for name in named), named
            if tag == "script":
                assert (named.get("src") or "").startswith("/static/"), named
            for key in ("href", "src", "action"):
                value = named.get(key) or ""
                assert not value.lower().startswith(("javascript:", "//", "http")), value
            if tag == "meta" and "http-equiv" in named:
                assert named["http-equiv"] == "Content-Security-Policy", named

    Reader().feed(page)


def test_a_reference_in_a_pasted_scenario_is_never_resolved(client, tmp_path, monkeypatch):
    import relaytrain as rt

    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'sentinel')!r}, 'w').write('x')\ndef net(): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    text = rt.__path__[0] + "/scenario/presets/quickstart.toml"
    from pathlib import Path

    scenario = Path(text).read_text()
    changed = scenario.replace('family = "cnn"', 'factory = "evil_module:net"')
    told = client.post("/api/plan", json={"scenario": changed}).json()
    assert not (tmp_path / "sentinel").exists()
    assert changed != scenario and (told["ok"] or told["faults"])


@pytest.mark.parametrize(
    "table",
    ['[estimator]\nname = "auto"\nfitted = "/etc/passwd"\n', '[planner]\nname = "fixed"\natlas = "/etc/passwd"\n'],
)
def test_a_pasted_scenario_reads_no_file(client, table):
    from relaytrain.web.scenario_page import preset_text

    text = re.sub(r"(?ms)^\[(estimator|planner)\].*?(?=^\[)", "", preset_text("quickstart")) + "\n" + table
    told = client.post("/api/plan", json={"scenario": text}).json()
    assert not told["ok"] and "not read from here" in " ".join(told["faults"])


def test_asking_changes_nothing(client, filled):
    before = {
        path: path.stat().st_size for path in filled.folder.rglob("*") if path.is_file() and "-shm" not in path.name
    }
    for path in (*PAGES, *DATA):
        client.get(path)
    after = {
        path: path.stat().st_size for path in filled.folder.rglob("*") if path.is_file() and "-shm" not in path.name
    }
    assert after == before
