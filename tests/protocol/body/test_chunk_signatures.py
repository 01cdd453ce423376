from hashlib import sha256

import pytest

from forebay.protocol.body.chunk_signatures import ChunkedMode, ChunkSignatureChain
from forebay.protocol.signatures.signing_key import Scope, signing_key

SCOPE = Scope("20130524", "us-east-1", "s3")
KEY = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", *SCOPE)
CHUNKS = [sha256(b"a" * size).hexdigest() for size in (65536, 1024, 0)]


def chain(seed: str) -> ChunkSignatureChain:
    return ChunkSignatureChain(KEY, "20130524T000000Z", SCOPE, seed)


def test_chunk_signatures_match_amazons_example() -> None:
    links = chain("4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9")
    assert [links.chunk_signature(digest) for digest in CHUNKS] == [
        "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
    ]


def test_a_trailer_signature_matches_amazons_example() -> None:
    links = chain("106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e")
    assert [links.chunk_signature(digest) for digest in CHUNKS] == [
        "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
        "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
        "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    ]
    trailer = links.trailer_signature("x-amz-checksum-crc32c", "sOO8/Q==")
    assert trailer == "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435"


@pytest.mark.parametrize("mode", list(ChunkedMode))
def test_mode_properties_match_the_header_value(mode: ChunkedMode) -> None:
    assert mode.is_signed == ("AWS4-HMAC-SHA256" in mode.value)
    assert mode.has_trailer == mode.value.endswith("-TRAILER")
