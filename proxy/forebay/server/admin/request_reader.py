"""A request's query, path and body as the arguments of a verb: read once and strictly, with bounds.

A verb's signature is the schema. A parameter is the field of its name; of a dataclass (a request of admin_schema), the
fields of the dataclass. The values of a path come first. GET and DELETE have their fields in the query, POST and PUT in
a JSON object. An unknown field is refused, as is one given twice: `{"concurency": 8}` must not become a default.
"""

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Final, NamedTuple, cast, get_args, get_type_hints

from aiohttp import web

from forebay.server.admin.admin_errors import AdminRefusal, bad_request

MAX_SMALL_BODY: Final = 64 * 1024
MAX_CONFIG_BODY: Final = 1024 * 1024
MAX_JOB_BODY: Final = 16 * 1024 * 1024  # a list of a few hundred thousand keys


class _Field(NamedTuple):
    name: str
    check: Callable[[object, str], object]
    required: bool


async def read_arguments(request: web.Request, verb: Callable[..., object], body_limit: int) -> dict[str, Any]:
    """The arguments that the request gives the verb, by name, without those of its path. Raises AdminRefusal."""
    record, known = _request_fields(verb, len(request.match_info))
    names = [each.name for each in known]
    if request.method in {"GET", "DELETE"}:
        values: dict[str, object] = dict(read_query(request, names))
        if request.method == "DELETE":
            await read_fields(request, (), body_limit)
    else:
        read_query(request, ())
        values = await read_fields(request, names, body_limit)
    try:
        checked = {
            each.name: each.check(values.get(each.name), each.name)
            for each in known
            if each.required or each.name in values
        }
        return checked if record is None else {record[0]: record[1](**checked)}
    except ValueError as error:
        raise bad_request(str(error)) from error


@cache
def _request_fields(
    verb: Callable[..., object], in_path: int
) -> tuple[tuple[str, Callable[..., object]] | None, tuple[_Field, ...]]:
    """The fields of a verb's request, and the parameter and dataclass that they make up, if there is one."""
    hints = get_type_hints(verb, include_extras=True)
    parameters = list(inspect.signature(verb).parameters.values())[1 + in_path :]
    if len(parameters) == 1 and is_dataclass(record := hints[parameters[0].name]):
        inner = get_type_hints(record, include_extras=True)
        known = tuple(_field(each.name, inner[each.name], each.default is MISSING) for each in fields(record))
        return (parameters[0].name, cast("type", record)), known
    known = tuple(_field(each.name, hints[each.name], each.default is each.empty) for each in parameters)
    return None, known


def _field(name: str, annotated: Any, required: bool) -> _Field:
    _, check = get_args(annotated)
    return _Field(name, check, required)


def read_query(request: web.Request, known: Iterable[str]) -> dict[str, str]:
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


async def read_fields(request: web.Request, known: Iterable[str], limit: int = MAX_SMALL_BODY) -> dict[str, object]:
    """The fields of a JSON object. 400 unless it is one; for a field that isn't `known`, or that is given twice. An
    empty body is an object without fields."""
    if request.content_type != "application/json":
        raise AdminRefusal(415, "content_type", "This takes Content-Type application/json.")
    body = await read_body(request, limit)
    try:
        parsed = json.loads(body or b"{}", object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise bad_request("The body is not JSON.") from error
    if not isinstance(parsed, dict):
        raise bad_request("The body must be a JSON object.")
    unknown = sorted(parsed.keys() - frozenset(known))
    if unknown:
        raise bad_request(f"The field {unknown[0]!r} is not known; known are {', '.join(sorted(known)) or 'none'}.")
    return parsed


async def read_toml(request: web.Request) -> str:
    """A configuration's text. Raises AdminRefusal."""
    if request.content_type != "application/toml":
        raise AdminRefusal(415, "content_type", "This takes Content-Type application/toml.")
    body = await read_body(request, MAX_CONFIG_BODY)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise bad_request("The body is not UTF-8, which TOML has to be.") from error


async def read_body(request: web.Request, limit: int) -> bytes:
    """The whole body, at most `limit` bytes of it, or 413."""
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        # A small compressed body may be large once decoded, and no client needs one on this port.
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


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise bad_request("A field is given twice.")
    return found
