"""The aws-chunked encoder. test_aws_chunked_decoder decodes what it writes."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.body.aws_chunked_encoder import CHUNK, AwsChunkedEncoder, encoded_length
from forebay.protocol.body.checksums import encode, hasher

CRC32 = "x-amz-checksum-crc32"


def test_a_body_is_encoded_as_by_botocore() -> None:
    encoder = AwsChunkedEncoder(CRC32)
    assert encoder.encode(b"hello") == []
    sent = b"".join(encoder.finish("NhCmhg=="))
    assert sent == b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"


def test_bytes_are_not_copied() -> None:
    body = bytes(3 * CHUNK)
    sent = AwsChunkedEncoder(CRC32).encode(body)
    views = [piece for piece in sent if isinstance(piece, memoryview)]
    assert [len(view) for view in views] == [CHUNK] * 3
    assert all(view.obj is body for view in views)


@given(st.lists(st.binary(max_size=100)), st.sampled_from(("crc32", "crc64nvme", "sha256", "sha1")))
def test_encoded_length_is_the_length_of_the_encoded_body(pieces: list[bytes], algorithm: str) -> None:
    trailer = f"x-amz-checksum-{algorithm}"
    encoder = AwsChunkedEncoder(trailer, 64)
    sent = [run for piece in pieces for run in encoder.encode(piece)]
    sent += encoder.finish(encode(hasher(algorithm).digest()))
    size = sum(len(piece) for piece in pieces)
    assert sum(len(run) for run in sent) == encoded_length(size, trailer, 64)
