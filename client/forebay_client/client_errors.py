"""The errors of the client library: one tree, each with the bucket, the key and the response that it is about.

    ClientError                bucket, key, status, code, request_id; any of them may be None
    ├── ClientConfigurationError   an endpoint, a profile or credentials are missing or malformed; nothing was sent
    ├── ObjectNotFound             the object, its version or its bucket does not exist
    ├── AccessDenied               the credentials are refused, or may not do this
    ├── ConditionNotMet            If-Match and the like: the object is another than the caller's
    ├── InvalidRequest             the request as such is refused; repeating it can't help
    │   └── RangeNotSatisfiable        the range begins at or behind the end of the object
    ├── ServiceUnavailable         throttled, failed or unreachable, after all retries
    └── BodyCorrupt                the body is not the one that was announced: checksum, length, version

Every one of them can be pickled, and none holds a secret: messages are made of names and of the server's own `Message`.
"""

from typing import Final, Self


class ClientError(Exception):
    """A request that failed. The message names bucket, key, status, code and request id, as far as they are known."""

    def __init__(
        self,
        reason: str,
        *,
        bucket: str | None = None,
        key: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.reason, self.bucket, self.key = reason, bucket, key
        self.status, self.code, self.request_id = status, code, request_id
        super().__init__(self._text())

    def _text(self) -> str:
        location = f"s3://{_readable(self.bucket)}/{_readable(self.key or '')}: " if self.bucket is not None else ""
        known = [f"HTTP {self.status}"] if self.status is not None else []
        known += [self.code] if self.code else []
        known += [f"request {self.request_id}"] if self.request_id else []
        facts = f" ({', '.join(known)})" if known else ""
        return f"{location}{self.reason}{facts}"

    def __reduce__(self) -> tuple[object, ...]:
        facts = (self.bucket, self.key, self.status, self.code, self.request_id)
        return _rebuilt, (type(self), self.reason, facts)

    @classmethod
    def of(cls, reason: str, facts: tuple[str | None, str | None, int | None, str | None, str | None]) -> Self:
        """The error with bucket, key, status, code and request id."""
        bucket, key, status, code, request_id = facts
        return cls(reason, bucket=bucket, key=key, status=status, code=code, request_id=request_id)


class ClientConfigurationError(ClientError):
    """An endpoint, a profile or credentials are missing or malformed. Nothing was sent."""


class ObjectNotFound(ClientError):
    """The object, its version or its bucket does not exist: `code` says which."""


class AccessDenied(ClientError):
    """The credentials are refused, or may not do this."""


class ConditionNotMet(ClientError):
    """The object is another than the request's condition names."""


class InvalidRequest(ClientError):
    """The request is refused as such: repeating it can't help."""


class RangeNotSatisfiable(InvalidRequest):
    """The range begins at or behind the end of the object."""


class ServiceUnavailable(ClientError):
    """Throttled, failed or unreachable, after all retries. Repeating it later can help."""


class BodyCorrupt(ClientError):
    """The body is not the one that was announced, after all retries: its checksum, length or version is another."""


_BY_STATUS: Final[dict[int, type[ClientError]]] = {
    401: AccessDenied,
    403: AccessDenied,
    404: ObjectNotFound,
    412: ConditionNotMet,
    416: RangeNotSatisfiable,
    429: ServiceUnavailable,
}
_BY_CODE: Final[dict[str, type[ClientError]]] = {
    "RequestTimeout": ServiceUnavailable,  # 400, as Amazon has it
    "ExpiredToken": AccessDenied,  # 400, likewise
    "InvalidToken": AccessDenied,
}


def error_of_response(
    status: int, code: str, reason: str, bucket: str, key: str | None, request_id: str | None
) -> ClientError:
    """The error that a response of `status` means; `code`: of its error document, empty where it has none."""
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or (ServiceUnavailable if status >= 500 else InvalidRequest)
    return kind(reason, bucket=bucket, key=key, status=status, code=code or None, request_id=request_id)


def _readable(name: str) -> str:
    """A name in a message: line ends, control characters and halves of characters as escapes."""
    if name.isprintable():
        return name
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in name)


def _rebuilt(
    kind: type[ClientError], reason: str, facts: tuple[str | None, str | None, int | None, str | None, str | None]
) -> ClientError:
    return kind.of(reason, facts)
