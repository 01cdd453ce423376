"""POST /v1/lists: a list of keys is read as it arrives, and its objects are handed on, some at a time.

The query has the `format`, the `bucket` of keys that name none, and the `columns` of an inventory. A bad line is
answered with its number, once the body has been read to its end: a client that still sends would not see the answer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from forebay.server.admin.admin_errors import AdminRefusal, bad_request
from forebay.server.admin.admin_gate import LIST
from forebay.server.admin.key_list import (
    KeyList,
    KeyListEntry,
    KeyListReader,
    MalformedKeyList,
    check_columns,
    check_format,
)
from forebay.server.admin.request_reader import read_query
from forebay.server.admin.schema.admin_schema import check_bucket

MAX_LIST_BODY: Final = 4 << 30
PIECE: Final = 64 << 10
"""Bytes that are read at once: a millisecond or two of work."""

ExtendList = Callable[[str, list[KeyListEntry]], Awaitable[KeyList | None]]


async def receive_list(request: web.Request, extend: ExtendList) -> KeyList | None:
    """Receives a list. None: it was dropped meanwhile, as many others came. Raises AdminRefusal."""
    if request.content_type != LIST:
        raise AdminRefusal(415, "content_type", f"This takes Content-Type {LIST}.")
    reader = _reader(read_query(request, ("format", "bucket", "columns")))
    received, known, fault = 0, KeyList("", 0), None
    async for piece in request.content.iter_chunked(PIECE):
        received += len(piece)
        if received > MAX_LIST_BODY:
            raise AdminRefusal(413, "too_large", f"The body may have at most {MAX_LIST_BODY} bytes.")
        if fault is not None:
            continue
        try:
            entries = reader.feed(piece)
        except MalformedKeyList as bad:
            fault = bad.line, str(bad)
            continue
        if entries:
            extended = await extend(known.id, entries)
            if extended is None:
                return None
            known = extended
        await asyncio.sleep(0)
    if fault is None:
        try:
            entries = reader.close()
        except MalformedKeyList as bad:
            fault = bad.line, str(bad)
    if fault is not None:
        line, message = fault
        raise AdminRefusal(400, "bad_list", message, details={"line": line})
    if entries:
        return await extend(known.id, entries)
    if not known.objects:
        raise AdminRefusal(400, "bad_list", "The list has no key.")
    return known


def _reader(query: dict[str, str]) -> KeyListReader:
    try:
        list_format = check_format(query.get("format", "keys"), "format")
        bucket = check_bucket(query["bucket"], "bucket") if "bucket" in query else ""
        columns = check_columns(query["columns"], "columns") if "columns" in query else ()
    except ValueError as error:
        raise bad_request(str(error)) from error
    if columns and list_format != "s3-inventory":
        raise bad_request("'columns' is for an inventory: CSV has a header.")
    return KeyListReader(list_format, bucket, columns)
