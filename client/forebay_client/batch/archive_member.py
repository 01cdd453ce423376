"""A member of a TAR archive where the server can't pick it out: the archive is read up to the member.

The archive is streamed and dropped; it ends with the connection once the member is there. For many members of one
archive read the archive.
"""

from forebay_client.batch.tar_stream import TarBroken, TarStream
from forebay_client.client_errors import BodyCorrupt, InvalidRequest, ObjectNotFound, RangeNotSatisfiable
from forebay_client.objects import BatchKey
from forebay_client.transport.object_request import BodyInterrupted, ObjectRequest, SendRequest


def read_member(send: SendRequest, bucket: str, key: BatchKey) -> memoryview:
    """The bytes of `key.member`, or of the range of it. Raises ObjectNotFound where the archive has no such member,
    InvalidRequest where it is no TAR, and the other ClientErrors."""
    response = send(ObjectRequest("GET", bucket, key.key, is_streamed=True))
    if response.stream is None:
        raise BodyCorrupt("the archive has no body", bucket=bucket, key=key.key)
    tar = TarStream(response.stream, wanted=key.member)
    try:
        for entry in tar:
            if entry.name == key.member:
                if key.start >= len(entry.data) and (key.start or key.end is not None):
                    raise RangeNotSatisfiable("the range begins behind the member", bucket=bucket, key=key.key)
                return entry.data[key.start : key.end]
    except TarBroken as error:
        if isinstance(error.__cause__, BodyInterrupted):
            raise BodyCorrupt(f"the archive broke off: {error}", bucket=bucket, key=key.key) from error
        raise InvalidRequest(  # as Forebay says it
            f"no whole TAR: {error}", bucket=bucket, key=key.key, status=400, code="InvalidRequest"
        ) from error
    finally:
        tar.close()
    raise ObjectNotFound(
        f"the archive has no member {key.member!r}", bucket=bucket, key=key.key, status=404, code="NoSuchKey"
    )
