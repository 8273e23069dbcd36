"""Who may ask: a token, our own host name, our own pages. Everything else is refused before any route sees it.

The dashboard runs on a machine whose browser also visits other sites. Against those: a name that is not ours in `Host`
is refused (DNS rebinding), so is a request that another site's page made (`Origin`, `Sec-Fetch-Site`), the cookie is
`HttpOnly` and `SameSite=Strict`, no page runs a script that is not one of our files, and nothing may frame us. Asking
never changes anything: no route writes.
"""

from __future__ import annotations

import hmac
import html
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 1_100_000
"""Of a request's body: a scenario may have 1 MiB."""
LONGEST_URL = 4096
PER_SECOND, AT_ONCE = 60.0, 240.0
"""Requests a second in the long run, and in a burst; files that pages are made of do not count."""

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; sandbox"
"""Of a report, which is a file of its own: no script at all."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


@dataclass(frozen=True)
class Door:
    """What opens it: the `token`, the `hosts` that a request may name (with port), and the `cookie` that keeps it."""

    token: str
    hosts: frozenset[str]
    cookie: str = "relaytrain"
    secure: bool = False

    def fits(self, token: str | None) -> bool:
        """Whether `token` is ours, in the same time whatever is wrong with it."""
        return token is not None and hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def scheme(self) -> str:
        """Of our own pages."""
        return "https" if self.secure else "http"

    @property
    def origins(self) -> frozenset[str]:
        """Where our own pages come from."""
        return frozenset(f"{self.scheme}://{host}" for host in self.hosts)


@dataclass
class Bucket:
    """So many requests a second in the long run, and so many at once."""

    per_second: float = PER_SECOND
    most: float = AT_ONCE
    left: float = AT_ONCE
    seen_s: float = field(default_factory=time.monotonic)

    def take(self) -> bool:
        """Whether one more is within bounds."""
        now_s = time.monotonic()
        self.left = min(self.most, self.left + (now_s - self.seen_s) * self.per_second)
        self.seen_s = now_s
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True


class Guard:
    """ASGI middleware: refuses what has no business here, limits what has, and marks every answer."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door, self.bucket = app, door, Bucket()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        answer = self._refused(scope) or self._let_in(scope)
        if answer is not None:
            await answer(scope, receive, _marked(send, scope))
            return
        await self.app(scope, _limited(receive), _marked(send, scope))

    def _refused(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        path = str(scope["path"])
        if headers.get("host", "").lower() not in self.door.hosts:
            return _say(scope, 421, "this is not the host that the dashboard was started for")
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _say(scope, 405, "the dashboard only answers GET, HEAD and POST", {"allow": "GET, HEAD, POST"})
        if len(path) + len(scope.get("query_string", b"")) > LONGEST_URL:
            return _say(scope, 414, "the address is too long")
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdecimal()) or int(length[:20]) > MOST_BYTES:
            return _say(scope, 413, f"a request may have at most {MOST_BYTES} bytes")
        if self._foreign(scope, headers):
            return _say(scope, 403, "another site's page asked for this")
        if not path.startswith("/static/") and not self.bucket.take():
            return _say(scope, 429, "too many requests; wait a moment", {"retry-after": "1"})
        return None

    def _foreign(self, scope: Scope, headers: Headers) -> bool:
        """Whether a page that is not ours made the request; following a link from elsewhere is fine."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and origin not in self.door.origins:
            return True
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            form = kind == "application/x-www-form-urlencoded"
            if kind != "application/json" and not (form and origin is not None):
                return True
            return site not in (None, "same-origin")
        opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
        return site in ("cross-site", "same-site") and not opened

    def _let_in(self, scope: Scope) -> Response | None:
        """None for whoever has the token; a page that keeps it for whoever brings it in the address."""
        headers = Headers(scope=scope)
        fields = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        brought = [value for name, value in fields if name == "token"]
        if brought and scope["method"] in ("GET", "HEAD"):
            if not self.door.fits(brought[-1]):
                return _say(scope, 401, WAY_IN)
            rest = urlencode([(name, value) for name, value in fields if name != "token"])
            return self._keep(_local(str(scope["path"])) + (f"?{rest}" if rest else ""))
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        kept = _cookie(headers.getlist("cookie"), self.door.cookie)
        if self.door.fits(bearer if kind.lower() == "bearer" else None) or self.door.fits(kept):
            return None
        return _say(scope, 401, WAY_IN)

    def _keep(self, place: str) -> Response:
        """A page that goes on to `place`, so that the first request with the cookie comes from our own site."""
        where = html.escape(place, quote=True)
        page = (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>RelayTrain</title>'
            f'<link rel="icon" href="data:,"><meta http-equiv="refresh" content="0;url={where}"></head>'
            f'<body><p><a href="{where}">On to the dashboard</a></p></body></html>'
        )
        answer = HTMLResponse(page)
        answer.set_cookie(
            self.door.cookie, self.door.token, httponly=True, samesite="strict", path="/", secure=self.door.secure
        )
        return answer


WAY_IN = "open the address that `relaytrain ui` printed: it carries the token"


def hosts_of(names: Iterable[str], port: int) -> frozenset[str]:
    """What `Host` may say for a server on `port` that goes by these names."""
    every = {name.lower() if ":" not in name or name.startswith("[") else f"[{name}]" for name in names}
    plain = every if port in (80, 443) else set()
    return frozenset({f"{name}:{port}" for name in every} | plain)


def _local(path: str) -> str:
    """A path on this server; `//elsewhere` would be another one."""
    return "/" + path.lstrip("/\\")


def _cookie(lines: Iterable[str], name: str) -> str | None:
    for line in lines:
        try:
            morsel = SimpleCookie(line).get(name)
        except CookieError:
            continue
        if morsel is not None:
            return morsel.value
    return None


def _say(scope: Scope, status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    if str(scope["path"]).startswith("/api/"):
        return JSONResponse({"detail": words}, status, headers)
    return PlainTextResponse(words + "\n", status, headers)


def _limited(receive: Receive) -> Receive:
    """The body as it comes, cut off where it is longer than it said it would be."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            return {"type": "http.disconnect"}
        return message

    return counted


def _marked(send: Send, scope: Scope) -> Send:
    """Every answer with the headers that keep browsers from doing more with it than show it."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("content-security-policy", POLICY)
            headers.setdefault("cache-control", "no-cache" if str(scope["path"]).startswith("/static/") else "no-store")
        await send(message)

    return sent
