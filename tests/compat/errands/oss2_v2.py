"""oss2 with Signature Version 2, HMAC-SHA256 over all of the query."""

import oss2

from compat.errands.oss2 import travel_shortly, travel_with_a_token

travel_shortly(oss2.AuthV2)
travel_with_a_token(oss2.AUTH_VERSION_2, None)
