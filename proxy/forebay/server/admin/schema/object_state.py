"""The state of one object in the workers, for its Explanation."""

from typing import NamedTuple

from forebay.server.admin.schema.admin_schema import MemberPlace


class ObjectState(NamedTuple):
    """See the module."""

    in_doubt: bool = False
    pending: str | None = None
    member: MemberPlace | None = None
