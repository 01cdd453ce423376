"""What the admin port says when it doesn't do what was asked: `{"error": code, "message": sentence}` and a status.

    Refusal                          raised by the port itself; carries its status
    SettingsError   -> 422           with where, given, allowed
    Throttled       -> 503
    OriginError     -> 502
    aiohttp's own   -> their status  404, 405, 413
    anything else   -> 500           the reason goes to the log, never into the answer

Every answer goes through `answer_refusals`, the outermost middleware, so that an error is JSON whoever raised it.
"""

import logging
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from forebay.core.errors import OriginError, SettingsError, Throttled
from forebay.settings.redaction import REDACTED, is_secret_name, redact

log: Final = logging.getLogger(__name__)


class AdminRefusal(Exception):
    """The port doesn't do this. `error` is for programs and stays as it is; `message` is for people."""

    def __init__(self, status: int, error: str, message: str, headers: dict[str, str] | None = None) -> None:
        self.status, self.error, self.message, self.headers = status, error, message, headers
        super().__init__(f"{error}: {message}")


def bad_request(message: str) -> AdminRefusal:
    """The request can't be understood, or says something that isn't allowed."""
    return AdminRefusal(400, "bad_request", message)


def settings_error_response(error: SettingsError) -> web.Response:
    """What was wrong with a configuration, and what would be right. A secret isn't repeated, though the caller sent it:
    on a reload it came out of a file that the caller may not be able to read."""
    given = REDACTED if is_secret_name(error.where) else repr(redact(error.given))
    message = f"{error.where}: got {given}, allowed: {error.allowed}"
    return web.json_response(
        {
            "error": "settings_refused",
            "message": message,
            "where": error.where,
            "given": given,
            "allowed": error.allowed,
        },
        status=422,
    )


@web.middleware
async def error_middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns whatever was raised into an answer."""
    try:
        return await handler(request)
    except AdminRefusal as refusal:
        return _error_response(refusal.status, refusal.error, refusal.message, refusal.headers)
    except SettingsError as error:
        return settings_error_response(error)
    except Throttled as error:
        return _error_response(503, "throttled", str(error), {"Retry-After": "1"})
    except OriginError:
        log.warning("admin: the origin was needed and could not be read", exc_info=True)
        return _error_response(502, "origin", "The origin could not be read; the reason is in Forebay's log.")
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        message = f"{request.method} is not for this path; it takes {allowed}."
        return _error_response(405, "method_not_allowed", message, {"Allow": allowed})
    except web.HTTPNotFound:
        return _error_response(404, "no_such_path", "There is nothing at this path; docs/cli.md lists the paths.")
    except web.HTTPException as error:
        return _error_response(error.status, "http", error.reason)
    except Exception:
        log.exception("admin: %s %s failed", request.method, request.path)
        return _error_response(500, "internal", "Forebay failed; the reason is in its log.")


def _error_response(status: int, error: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"error": error, "message": message}, status=status, headers=headers)
