"""What a right signature proves, in whatever dialect and version: the closed set of what the verifiers give.

Every lane gets one of these from forebay.request.authentication, and nothing else makes them.
"""

from typing import TypeAlias

from forebay.protocol.oss.oss_verification import SignedOss
from forebay.protocol.signatures.sigv2 import SignedV2
from forebay.protocol.signatures.sigv4 import SignedV4

__all__ = ["Signed", "SignedOss", "SignedV2", "SignedV4"]

Signed: TypeAlias = SignedV4 | SignedV2 | SignedOss
