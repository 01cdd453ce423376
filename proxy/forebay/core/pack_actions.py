"""The actions of pack jobs. Imports nothing: the supervisor reads them too."""

from typing import Final, Literal, TypeAlias, get_args

PackAction: TypeAlias = Literal["pack", "check", "delete", "unpack"]
PACK_ACTIONS: Final[tuple[PackAction, ...]] = get_args(PackAction)
DEFAULT_INTO: Final = "packed/"
