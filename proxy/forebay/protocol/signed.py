"""What a right signature proves, in whatever dialect and version: the closed set of what the verifiers give.

Every lane gets one of these from forebay.story.authentication, and nothing else makes them.
"""

from typing import TypeAlias

from forebay.protocol.oss.verify import SignedOss
from forebay.protocol.sigv2 import SignedV2
from forebay.protocol.sigv4 import SignedV4

__all__ = ["Signed", "SignedOss", "SignedV2", "SignedV4"]

Signed: TypeAlias = SignedV4 | SignedV2 | SignedOss
