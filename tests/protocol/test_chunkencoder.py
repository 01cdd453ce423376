"""The writer of aws-chunked bodies. That the reader takes what it writes is shown in test_awschunked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.checksums import encode, hasher
from forebay.protocol.chunkchain import ChunkChain, Mode
from forebay.protocol.chunkencoder import CHUNK, Encoder, encoded_length
from forebay.protocol.secretkey import Scope, signing_key

SCOPE = Scope("20130524", "us-east-1", "s3")
KEY = signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", *SCOPE)
SEED = "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"


def chain(seed: str = SEED) -> ChunkChain:
    return ChunkChain(KEY, "20130524T000000Z", SCOPE, seed)


def test_amazons_example() -> None:
    encoder = Encoder(Mode.SIGNED, chain())
    sent = b"".join([*encoder.encode(b"a" * 66560), *encoder.finish({})])
    assert len(sent) == encoded_length(66560, Mode.SIGNED) == 66824
    assert sent.startswith(
        b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\na"
    )
    assert sent.endswith(b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n")


def test_an_unsigned_body_as_botocore_writes_it() -> None:
    encoder = Encoder(Mode.UNSIGNED_TRAILER)
    assert encoder.encode(b"hello") == []
    sent = b"".join(encoder.finish({"x-amz-checksum-crc32": "NhCmhg=="}))
    assert sent == b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"


def test_bytes_are_not_copied() -> None:
    body = bytes(3 * CHUNK)
    sent = Encoder(Mode.UNSIGNED_TRAILER).encode(body)
    views = [piece for piece in sent if isinstance(piece, memoryview)]
    assert [len(view) for view in views] == [CHUNK] * 3
    assert all(view.obj is body for view in views)


@given(
    st.sampled_from(Mode), st.lists(st.binary(max_size=100)), st.sampled_from(("crc32", "crc64nvme", "sha256", "sha1"))
)
def test_the_encoded_length_is_known_beforehand(mode: Mode, pieces: list[bytes], algorithm: str) -> None:
    trailer = f"x-amz-checksum-{algorithm}" if mode.trailing else None
    encoder = Encoder(mode, chain() if mode.signed else None, 64)
    sent = [run for piece in pieces for run in encoder.encode(piece)]
    sent += encoder.finish({trailer: encode(hasher(algorithm).digest())} if trailer else {})
    size = sum(len(piece) for piece in pieces)
    assert sum(len(run) for run in sent) == encoded_length(size, mode, trailer, 64)


def test_the_chain_and_the_trailers_must_fit_the_mode() -> None:
    with pytest.raises(ValueError, match="chain"):
        Encoder(Mode.SIGNED)
    with pytest.raises(ValueError, match="chain"):
        Encoder(Mode.UNSIGNED_TRAILER, chain())
    with pytest.raises(ValueError, match="trailers"):
        Encoder(Mode.SIGNED, chain()).finish({"x-amz-checksum-crc32": "NhCmhg=="})
    with pytest.raises(ValueError, match="trailers"):
        Encoder(Mode.SIGNED_TRAILER, chain()).finish({})
