"""Verified signatures: the closed set of results of the verifiers, of all dialects and versions.

Every path of a request gets its signature from forebay.request.authentication, and only from there.
"""

from typing import TypeAlias

from forebay.protocol.signatures.oss_verification import SignedOss
from forebay.protocol.signatures.sigv2 import SignedV2
from forebay.protocol.signatures.sigv4 import SignedV4

__all__ = ["Signed", "SignedOss", "SignedV2", "SignedV4"]

Signed: TypeAlias = SignedV4 | SignedV2 | SignedOss
