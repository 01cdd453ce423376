"""oss2 with Signature Version 1, which is what `oss2.Auth` of every tutorial does."""

import oss2

from compat.errands.oss2 import travel, travel_with_a_token

travel(oss2.Auth, None)
travel_with_a_token(oss2.AUTH_VERSION_1, None)
