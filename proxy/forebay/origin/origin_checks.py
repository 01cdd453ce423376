"""The checks of a pack's member, or of a bucket, that only the origin can make, each by a HEAD.

    x-amz-expected-bucket-owner     HEAD of the member's shard with the header; of the bucket for a listing, a batch,
                                    and the requests of an upload in the journal
    a condition of a write          HEAD of the key: is there an object, too?
    versionId=null                  HEAD of the key with it ──> there is one: it is the version
                                                            └─> 404: the member, if its shard is a version null

An object that is put into a bucket without versioning is its version `null`, and so is a member of a shard there. The
shard says whether it is: with versioning, responses have its version's id.

Results are not cached: each such request causes a HEAD.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-owner-condition.html
"""

from typing import Final

from forebay.core.errors import OriginBroken, S3Error
from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.header_map import Headers

OWNER: Final = "x-amz-expected-bucket-owner"
SOURCE_OWNER: Final = "x-amz-source-expected-bucket-owner"
NULL_VERSION: Final = "null"
_VERSION_ID: Final = "x-amz-version-id"


class OriginChecks:
    """Sends checks to the origin. Keeps no state."""

    def __init__(self, origins: Origins) -> None:
        self._origins = origins

    async def check_owner(
        self, bucket: str, key: str | None, sent: Headers, identity: OriginIdentity | None, *, header: str = OWNER
    ) -> None:
        """Checks that a bucket has the owner that a request demands by `header`, if it does. `key`: of an object that
        the bucket has; None: the bucket itself is looked at. `sent`: the request's headers. Raises S3Error where the
        origin refuses, and OriginError, Throttled."""
        if header not in sent:
            return
        owner = ",".join(sent.getall(header))
        operation = "HeadBucket" if key is None else "HeadObject"
        status, _ = await self._head(
            OriginRequest("HEAD", bucket, key, headers=((OWNER, owner),), operation=operation), identity
        )
        if status == 403:
            raise S3Error("AccessDenied")
        if status == 400:
            raise S3Error("InvalidRequest", f"The origin does not accept this {header}.", ArgumentName=header)
        if status != 200:
            raise OriginBroken(f"the origin answered {status} to a {operation} with {OWNER}")

    async def is_null_version(self, name: ObjectName, shard: ObjectName, identity: OriginIdentity | None) -> bool:
        """Whether the version `null` of a key is the member in `shard`. Raises S3Error, OriginError, Throttled."""
        query = (("versionId", NULL_VERSION),)
        status, _ = await self._head(OriginRequest("HEAD", *name, query=query, operation="HeadObject"), identity)
        if status != 404:
            return False
        status, version_id = await self._head(OriginRequest("HEAD", *shard, operation="HeadObject"), identity)
        return status == 200 and version_id == NULL_VERSION

    async def has_object(self, name: ObjectName, identity: OriginIdentity | None) -> bool:
        """Whether the origin has an object of this name. Raises OriginError, S3Error, Throttled."""
        status, _ = await self._head(OriginRequest("HEAD", *name, operation="HeadObject"), identity)
        return status != 404

    async def _head(self, request: OriginRequest, identity: OriginIdentity | None) -> tuple[int, str]:
        """The status, and the id of the version."""
        credential = await request_credential(identity)
        async with await self._origins.send(request._replace(credential=credential)) as response:
            return response.status, response.headers.get(_VERSION_ID, NULL_VERSION)
