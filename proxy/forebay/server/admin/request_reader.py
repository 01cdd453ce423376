"""What a request says, read once and strictly: queries and bodies with bounds, and no field that isn't known.

A field that is misspelt must not become a default in silence: `{"concurency": 8}` is refused, as is a name given twice.
"""

import json
from collections.abc import Iterable
from typing import Final

from aiohttp import web

from forebay.core.names import MAX_KEY_BYTES
from forebay.server.admin.admin_errors import AdminRefusal, bad_request

MAX_SMALL_BODY: Final = 64 * 1024
MAX_CONFIG_BODY: Final = 1024 * 1024
MAX_JOB_BODY: Final = 16 * 1024 * 1024  # a list of a few hundred thousand keys


def query_of(request: web.Request, known: Iterable[str]) -> dict[str, str]:
    """The query parameters. 400 for one that isn't `known`, or that is given twice."""
    names = frozenset(known)
    found: dict[str, str] = {}
    for name, value in request.query.items():
        if name not in names:
            raise bad_request(
                f"The query parameter {name!r} is not known; known are {', '.join(sorted(names)) or 'none'}."
            )
        if name in found:
            raise bad_request(f"The query parameter {name!r} is given twice.")
        found[name] = value
    return found


async def bounded(request: web.Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes of it, or 413."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        # What is small on the wire may be large here; nobody needs it on this port.
        raise AdminRefusal(415, "content_encoding", "Compressed bodies are not taken.")
    too_large = AdminRefusal(413, "too_large", f"The body may have at most {limit} bytes.")
    if request.content_length is not None and request.content_length > limit:
        raise too_large
    body = bytearray()
    async for piece in request.content.iter_any():
        body += piece
        if len(body) > limit:
            raise too_large
    return bytes(body)


async def fields_of(request: web.Request, known: Iterable[str], limit: int = MAX_SMALL_BODY) -> dict[str, object]:
    """The fields of a JSON object. 400 unless it is one; for a field that isn't `known`, or that is given twice. An
    empty body is an object without fields."""
    if request.content_type != "application/json":
        raise AdminRefusal(415, "content_type", "This takes Content-Type application/json.")
    body = await bounded(request, limit)
    try:
        parsed = json.loads(body or b"{}", object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise bad_request("The body is not JSON.") from error
    if not isinstance(parsed, dict):
        raise bad_request("The body must be a JSON object.")
    unknown = sorted(parsed.keys() - frozenset(known))
    if unknown:
        raise bad_request(f"The field {unknown[0]!r} is not known; known are {', '.join(sorted(known)) or 'none'}.")
    return parsed


def bucket_name(value: object) -> str:
    """A bucket's name, or 400. Loose: what exists is for the origin to say."""
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isascii() or not value.isprintable():
        raise bad_request("'bucket' is needed: the name of a bucket.")
    if "/" in value:
        raise bad_request("'bucket' may not hold a '/'; what follows the bucket is the prefix.")
    return value


def key_text(value: object, field: str) -> str:
    """A key or a prefix of keys (so it may be empty), or 400."""
    if not isinstance(value, str):
        raise bad_request(f"{field!r} must be text.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can write and UTF-8 can't
        raise bad_request(f"{field!r} holds text that is not Unicode.") from error
    if size > MAX_KEY_BYTES:
        raise bad_request(f"{field!r} is longer than {MAX_KEY_BYTES} bytes, the longest that a key can be.")
    return value


def whole_number(value: object, field: str, least: int, most: int) -> int:
    """An integer within bounds, or 400. True and False are not integers here."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise bad_request(f"{field!r} must be a whole number from {least} to {most}.")
    return value


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise bad_request("A field is given twice.")
    return found
