"""What every worker answers about an object when the soak has found something wrong, and what the origin has."""

import re
from typing import Final

from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from soak.data_bucket import DATA
from soak.foreign_bucket import FOREIGN

_KEY: Final = re.compile(r" of ((?:back|listed|switched|members|always|brief|never|saved)/[\w-]+)")


async def report(error: BaseException, clients: list[RawClient], origin: FakeOrigin) -> list[str]:
    """Lines about the object that an error names."""
    found = next(filter(None, map(_KEY.search, _messages(error))), None)
    if found is None:
        return []
    lines = []
    for bucket in (DATA, FOREIGN):
        stored = origin.store.current(bucket, found[1])
        lines.append(f"{bucket}/{found[1]} at the origin: {stored.etag if stored is not None else None}")
        for number, client in enumerate(clients):
            try:
                answer = await client.request("GET", path_of(bucket, found[1]))
            except OSError as failed:
                lines.append(f"  worker {number}: {failed}")
                continue
            headers = answer.headers
            cell = answer.body[:40] if answer.status == 200 else b""
            lines.append(
                f"  worker {number}: {answer.status} {headers.get('x-forebay-cache')} {headers.get('ETag')} {cell!r}"
            )
    return lines


def _messages(error: BaseException) -> list[str]:
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [str(error), *(message for each in inner for message in _messages(each))]
