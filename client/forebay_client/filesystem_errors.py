"""The errors of the client library as those of Python's files, which users of fsspec expect."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay_client.client_errors import (
    AccessDenied,
    ClientError,
    ConditionNotMet,
    InvalidRequest,
    ObjectNotFound,
    ServiceUnavailable,
)

_KINDS: Final[tuple[tuple[type[ClientError], int], ...]] = (
    (ObjectNotFound, errno.ENOENT),
    (AccessDenied, errno.EACCES),
    (ConditionNotMet, errno.ESTALE),
    (ServiceUnavailable, errno.EBUSY),
    (InvalidRequest, errno.EINVAL),
)


def os_error(error: ClientError, path: str) -> OSError:
    """The OSError for a ClientError: FileNotFoundError, PermissionError, ESTALE for an object that was replaced while
    it was read, EBUSY for a server that may answer later, EINVAL, else EIO."""
    number = next((number for kind, number in _KINDS if isinstance(error, kind)), errno.EIO)
    return OSError(number, str(error), path)


@contextmanager
def os_errors(path: str) -> Iterator[None]:
    """Raises a ClientError in the block as an OSError about `path`."""
    try:
        yield
    except ClientError as error:
        raise os_error(error, path) from error
