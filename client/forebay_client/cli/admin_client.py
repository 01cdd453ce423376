"""The client of the admin port: a request, its response, and a sentence for each way to fail.

    AdminError              a sentence for the person at the terminal
    ├── AdminUnreachable    no answer, or not one of Forebay
    └── AdminRefused        Forebay refused; carries its status and error code

A connection a request: commands ask a few times a second at most. Proxies of the environment are not used: the admin
port is on this machine or on this network.
"""

import http.client
import json
import socket
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

from forebay_client.cli.admin_address import AdminAddress

TIMEOUT = 60.0
"""Seconds for one response. Long, because a purge of millions of objects is one request."""

JsonObject: TypeAlias = dict[str, Any]
"""A response; docs/admin-port.md lists them."""


class AdminError(Exception):
    """The request failed; the message is a sentence."""


class AdminUnreachable(AdminError):
    """The admin port did not answer, or another server did."""


class AdminRefused(AdminError):
    """Forebay refused the request."""

    def __init__(self, status: int, error: str, message: str) -> None:
        self.status, self.error = status, error
        super().__init__(message)


def api_path(*names: str) -> str:
    """A path under /v1, with its names percent-encoded."""
    return "/v1/" + "/".join(quote(name, safe="") for name in names)


class _ForebayObject(dict[str, Any]):
    """A JSON object of a response. Access to a missing field raises `foreign`: Forebay always sends all fields."""

    def __init__(self, fields: list[tuple[str, Any]], foreign: AdminUnreachable) -> None:
        super().__init__(fields)
        self._foreign = foreign

    def __missing__(self, name: str) -> Any:
        raise self._foreign


class AdminClient:
    """The admin port at one address. Methods return the response's JSON object and raise AdminError."""

    def __init__(self, address: AdminAddress, token: str | None, timeout: float = TIMEOUT) -> None:
        self.address, self.token, self._timeout = address, token, timeout

    def get(self, path: str, query: Mapping[str, str] | None = None) -> JsonObject:
        """GET with a query."""
        return self._request("GET", path, query, None, None)

    def post(self, path: str, fields: Mapping[str, object]) -> JsonObject:
        """POST with JSON fields."""
        return self._request("POST", path, None, json.dumps(fields).encode(), "application/json")

    def post_stream(self, path: str, query: Mapping[str, str], pieces: Iterable[bytes]) -> JsonObject:
        """POST with a body that is sent as it is read. It may come from a generator, whose errors pass through."""
        return self._request("POST", path, query, pieces, "application/octet-stream")

    def put(self, path: str, fields: Mapping[str, object]) -> JsonObject:
        """PUT with JSON fields."""
        return self._request("PUT", path, None, json.dumps(fields).encode(), "application/json")

    def put_toml(self, path: str, toml: bytes) -> JsonObject:
        """PUT with a TOML document."""
        return self._request("PUT", path, None, toml, "application/toml")

    def delete(self, path: str, query: Mapping[str, str] | None = None) -> JsonObject:
        """DELETE with a query."""
        return self._request("DELETE", path, query, b"", "application/json")

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | Iterable[bytes] | None,
        content_type: str | None,
    ) -> JsonObject:
        target = f"{path}?{urlencode(query)}" if query else path
        try:
            status, raw = self._exchange(method, target, body, content_type)
        except ConnectionRefusedError as error:
            raise AdminUnreachable(
                f"Nothing listens at {self.address}. Is Forebay running there? (Another address: --admin HOST:PORT or "
                "FOREBAY_ADMIN.)"
            ) from error
        except (socket.gaierror, UnicodeError) as error:  # the latter: a label too long for the domain name system
            raise AdminUnreachable(f"The host of {self.address} is not known.") from error
        except TimeoutError as error:
            raise AdminUnreachable(f"Forebay at {self.address} did not answer within {self._timeout:.0f} s.") from error
        except OSError as error:
            reason = error.strerror or "the connection was closed"
            raise AdminUnreachable(f"{self.address} can't be reached: {reason}.") from error
        except http.client.HTTPException as error:
            raise self._not_forebay() from error
        try:
            answer = json.loads(raw, object_pairs_hook=lambda fields: _ForebayObject(fields, self._not_forebay()))
        except ValueError as error:
            raise self._not_forebay() from error
        if not isinstance(answer, dict):
            raise self._not_forebay()
        if 200 <= status < 300:
            return answer
        raise self._refused(status, answer)

    def _exchange(
        self, method: str, target: str, body: bytes | Iterable[bytes] | None, content_type: str | None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.address.host, self.address.port, timeout=self._timeout)
        try:
            connection.connect()
            # Forebay refuses host names that it doesn't know, which keeps out web pages whose name points at it. The
            # Host is therefore the address of the connection, not the name that was typed.
            peer = connection.sock.getpeername()[0].partition("%")[0]
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", str(AdminAddress(peer, self.address.port)))
            if self.token is not None:
                connection.putheader("Authorization", b"Bearer " + self.token.encode(errors="surrogateescape"))
            if content_type is not None:
                connection.putheader("Content-Type", content_type)
            is_chunked = body is not None and not isinstance(body, bytes)
            if isinstance(body, bytes):
                connection.putheader("Content-Length", str(len(body)))
            elif is_chunked:
                connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders(body, encode_chunked=is_chunked)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _refused(self, status: int, answer: JsonObject) -> AdminRefused:
        error, message = str(answer.get("error", status)), str(answer.get("message", f"HTTP status {status}"))
        if status == 401:
            message = (
                f"Forebay at {self.address} asks for its admin token: set FOREBAY_ADMIN_TOKEN(_FILE)."
                if self.token is None
                else f"Forebay at {self.address} does not accept the token in FOREBAY_ADMIN_TOKEN(_FILE)."
            )
        return AdminRefused(status, error, message)

    def _not_forebay(self) -> AdminUnreachable:
        return AdminUnreachable(f"The server at {self.address} is not the admin port of a Forebay.")
