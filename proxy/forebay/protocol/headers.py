"""Headers as every floor sees them: case-insensitive, several values a name, in the order they came."""

from typing import TypeAlias

from multidict import MultiMapping

Headers: TypeAlias = MultiMapping[str]
