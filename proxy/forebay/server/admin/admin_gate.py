"""The gate of the admin port: decides about every request before its body is read.

The port can change what Forebay does. Three kinds of callers are refused:

- a stranger: where a token is configured, requests carry it as `Authorization: Bearer`. Where none is, requests come
  from this machine: the peer is a loopback address or a Unix socket.
- a web page in a browser on this machine: browsers send `Origin` and `Sec-Fetch-Site`; and a request with an effect
  needs a Content-Type that a page can't send across origins without a preflight
  (https://fetch.spec.whatwg.org/#cors-safelisted-request-header).
- a web page whose name was pointed at this machine after it was loaded (DNS rebinding): its requests carry that name in
  `Host`, so the host must be an IP literal, localhost, or the configured name.

Health and metrics are open: probes and scrapers have no token and don't choose their Host. Everything else, also paths
without a route, is closed; a route is open only if it is in `OPEN_PATHS`.
"""

import hmac
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from forebay.server.admin.admin_errors import AdminRefusal

OPEN_PATHS: Final = frozenset({"/healthz", "/readyz", "/metrics"})
"""Routes (not request paths) that need no permission."""

TOML: Final = "application/toml"
JSON: Final = "application/json"
LIST: Final = "application/octet-stream"
"""The Content-Type of a list of keys, in any of its formats."""

_EFFECT: Final = frozenset({"POST", "PUT", "DELETE", "PATCH"})
_HOST: Final = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(:[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class AdminGate:
    """The configured token and host names, and the check of a request against them."""

    token: str | None = field(default=None, repr=False)
    """The token of `Authorization: Bearer`. None: no token, and no caller from another machine."""
    hosts: frozenset[str] = frozenset()
    """Host names, without a port, allowed beside localhost and IP literals."""

    def __post_init__(self) -> None:
        # An empty token would admit every caller that sends an empty one.
        if self.token is not None and not self.token.strip():
            raise ValueError("the admin token is empty")

    def check(self, request: web.BaseRequest) -> AdminRefusal | None:
        """The refusal of this request, or None if it is allowed. Reads the head and the connection only."""
        if "Origin" in request.headers:
            return _forbidden("browser", "Requests with an Origin header are refused: they come from a web page.")
        # "none" is an address typed by a person. Forebay serves no pages, so even "same-origin" is another server's.
        if any(site.strip().lower() != "none" for site in request.headers.getall("Sec-Fetch-Site", [])):
            return _forbidden("browser", "Requests that a web page makes are refused (Sec-Fetch-Site).")
        hosts = request.headers.getall("Host", [])
        if len(hosts) != 1 or not self._is_known_host(hosts[0]):
            message = "Host must be an IP address, localhost, or the host of the configured admin address."
            return _forbidden("host", message)
        if self.token is None:
            if not _is_local(request):
                message = "No admin token is configured, so only requests from Forebay's own machine are answered."
                return _forbidden("not_local", message)
        elif not self._has_token(request):
            message = "The admin token is missing or wrong; it comes as 'Authorization: Bearer TOKEN'."
            return AdminRefusal(401, "token", message, {"WWW-Authenticate": "Bearer"})
        if request.method in _EFFECT and not _has_api_content_type(request):
            return AdminRefusal(415, "content_type", f"{request.method} needs Content-Type {JSON}, {TOML} or {LIST}.")
        return None

    def _is_known_host(self, header: str) -> bool:
        match = _HOST.fullmatch(header)
        if match is None:
            return False
        name = match["name"].lower()
        if name == "localhost" or name in self.hosts:
            return True
        try:
            ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    def _has_token(self, request: web.BaseRequest) -> bool:
        values = request.headers.getall("Authorization", [])
        if self.token is None or len(values) != 1:
            return False
        scheme, _, credential = values[0].partition(" ")
        # Compared as bytes, because compare_digest accepts no text beyond ASCII; in constant time, so that the response
        # time does not show how much of a guess was right.
        same = hmac.compare_digest(credential.strip().encode(errors="surrogateescape"), self.token.encode())
        return same and scheme.lower() == "bearer"


def gate_middleware(gate: AdminGate) -> Middleware:
    """The middleware that applies the gate: before every handler, also before aiohttp's own 404 and 405."""

    @web.middleware
    async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        if resource is None or resource.canonical not in OPEN_PATHS:
            refusal = gate.check(request)
            if refusal is not None:
                raise refusal
        return await handler(request)

    return guarded


def _forbidden(error: str, message: str) -> AdminRefusal:
    return AdminRefusal(403, error, message)


def _has_api_content_type(request: web.BaseRequest) -> bool:
    values = request.headers.getall("Content-Type", [])
    return len(values) == 1 and values[0].partition(";")[0].strip().lower() in {JSON, TOML, LIST}


def _is_local(request: web.BaseRequest) -> bool:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if isinstance(peer, str | bytes):
        return True  # a Unix socket: the file system's permissions decide
    if not isinstance(peer, tuple):
        return False
    address = ip_address(str(peer[0]).partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)
