"""Small objects of Forebay's own at the origin, such as parts of packs: each written and deleted by one request.

Requests are not repeated: one whose answer was lost may have been carried out.
"""

from typing import Final

from forebay.core.errors import OriginBroken, S3Error, WriteRefused
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.xml.s3_documents import embedded_error

_DOCUMENT: Final = 1 << 20


async def put_object(
    origins: Origins,
    name: ObjectName,
    body: bytes,
    headers: HeaderPairs = (),
    identity: OriginIdentity | None = None,
) -> None:
    """Writes a small object. `headers` may be conditions, too. `identity`: who writes it, None for Forebay. Raises
    OriginError (WriteRefused with the origin's status), S3Error (AccessDenied where the origin denies it to the
    identity), Throttled."""
    request = OriginRequest(
        "PUT",
        *name,
        headers=headers,
        body=body,
        content_length=len(body),
        payload_hash=UNSIGNED_PAYLOAD,
        operation="PutObject",
        credential=await request_credential(identity),
    )
    async with await origins.send(request) as answer:
        document = await answer.read(_DOCUMENT)
        if answer.status >= 300:
            if answer.status == 403 and identity is not None:
                raise S3Error("AccessDenied", f"The origin does not let this key write {name.path}.")
            reason = f"{name.path}: the origin answered {embedded_error(document) or answer.status}"
            raise WriteRefused(reason, answer.status)


async def delete_object(origins: Origins, name: ObjectName) -> None:
    """Deletes an object, if there is one. Raises OriginError, S3Error, Throttled."""
    async with await origins.send(OriginRequest("DELETE", *name, operation="DeleteObject")) as answer:
        document = await answer.read(_DOCUMENT)
        if answer.status >= 300 and answer.status != 404:
            raise OriginBroken(f"{name.path}: the origin answered {embedded_error(document) or answer.status}")
