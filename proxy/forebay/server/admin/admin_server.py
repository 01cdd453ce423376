"""The admin port as an HTTP server: run by the only worker, or by the supervisor of several.

    request ──> error_middleware ──> gate_middleware ──> route ──> Control

`error_middleware` is the outermost, so that every error is a JSON answer with its status, whoever raised it:

    AdminRefusal                     raised by the port itself; carries its status
    SettingsError   -> 422           with where, given, allowed
    PinRefused      -> 409
    OrderRefused    -> 404
    Throttled       -> 503
    OriginError     -> 502
    aiohttp's own   -> their status  404, 405, 413
    anything else   -> 500           the reason goes to the log, never into the answer
"""

import logging
import socket
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from forebay.core.errors import OrderRefused, OriginError, PinRefused, SettingsError, Throttled
from forebay.server.admin.admin_errors import AdminRefusal
from forebay.server.admin.admin_gate import AdminGate, gate_middleware
from forebay.server.admin.control import Control
from forebay.server.admin.routes import add_routes
from forebay.settings.model import ServerSettings
from forebay.settings.redaction import REDACTED, is_secret_name, redact

ADMIN_GRACE: Final = 2.0
"""Seconds that requests of the admin port may take to end on a stop: they are small."""

_log: Final = logging.getLogger(__name__)


async def serve_admin(server: ServerSettings, control: Control, admin: socket.socket) -> web.AppRunner:
    """Serves the admin port of a node on the socket `admin`; ends with the runner's cleanup."""
    hosts = frozenset({server.admin.host}) if server.admin is not None else frozenset[str]()
    gate = AdminGate(server.admin_token.reveal() if server.admin_token is not None else None, hosts)
    application = admin_application(control, gate)
    runner = AdminRunner(application, access_log=None, handle_signals=False, shutdown_timeout=ADMIN_GRACE)
    await runner.setup()
    await web.SockSite(runner, admin).start()
    return runner


class AdminRunner(web.AppRunner):
    """aiohttp's runner, with AdminConnections."""

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _AdminServer(made.request_handler, request_factory=made.request_factory, **made._kwargs)  # noqa: SLF001 # aiohttp has no other way


class _AdminServer(web.Server):
    def __call__(self) -> web.RequestHandler:
        return _AdminConnection(self, loop=self._loop, **self._kwargs)


class _AdminConnection(web.RequestHandler):
    async def start(self) -> None:
        """aiohttp's task, without the exception of a client that left before its first step, as a probe of a node that
        starts may: the exception is awaited nowhere."""
        if self._manager is not None:
            await super().start()


def admin_application(control: Control, gate: AdminGate) -> web.Application:
    """The aiohttp application of the admin port. It has no state and starts nothing of its own."""
    # aiohttp's own limit on bodies concerns request.read(), which nothing here calls; see request_reader.read_body.
    application = web.Application(middlewares=[error_middleware, gate_middleware(gate)])
    application.on_response_prepare.append(_set_headers)
    add_routes(application.router, control)
    return application


async def _set_headers(_request: web.Request, response: web.StreamResponse) -> None:
    # Instead of the versions of Python and aiohttp, which are not for callers.
    response.headers["Server"] = "forebay"
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Content-Type-Options"] = "nosniff"


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Translates exceptions to answers: see the module."""
    try:
        return await handler(request)
    except AdminRefusal as refusal:
        return _error_response(refusal.status, refusal.error, refusal.message, refusal.headers, details=refusal.details)
    except SettingsError as error:
        return _settings_error_response(error)
    except PinRefused as error:
        return _error_response(409, "pin_refused", str(error))
    except OrderRefused as error:
        return _error_response(404, error.code, str(error))
    except Throttled as error:
        return _error_response(503, "throttled", _sentence(str(error)), {"Retry-After": "1"})
    except OriginError:
        _log.warning("admin: the origin was needed and could not be read", exc_info=True)
        return _error_response(502, "origin", "The origin could not be read; the reason is in Forebay's log.")
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} is not for this path; it takes {allowed}."
        return _error_response(405, "method_not_allowed", message, {"Allow": allowed})
    except web.HTTPNotFound:
        return _error_response(404, "no_such_path", "There is nothing here; docs/admin-port.md lists the paths.")
    except web.HTTPException as error:
        return _error_response(error.status, "http", error.reason)
    except Exception as error:
        if isinstance(error, ConnectionResetError) and request.transport is None:  # nobody is left to be answered
            _log.info("admin: %s %s: the client left before the end of its body", request.method, request.path)
            return _error_response(400, "incomplete", "The body ended early.")
        _log.exception("admin: %s %s failed", request.method, request.path)
        return _error_response(500, "internal", "Forebay failed; the reason is in its log.")


def _sentence(reason: str) -> str:
    return reason if reason.endswith(".") else f"{reason[:1].upper()}{reason[1:]}. Please try again."


def _settings_error_response(error: SettingsError) -> web.Response:
    """The problem of a configuration, and the allowed values. A secret isn't repeated, though the caller sent it:
    on a reload it came out of a file that the caller may not be able to read."""
    value = REDACTED if is_secret_name(error.where) else repr(redact(error.value))
    message = error.message(None if error.value is None else value)
    details = {"where": error.where, "given": value, "allowed": error.allowed}
    return _error_response(422, "settings_refused", message, details=details)


def _error_response(
    status: int,
    error: str,
    message: str,
    headers: dict[str, str] | None = None,
    *,
    details: Mapping[str, object] | None = None,
) -> web.Response:
    return web.json_response({"error": error, "message": message, **(details or {})}, status=status, headers=headers)
