"""The parts that a completion lists, read in one go."""

from forebay.core.cooperative import run_to_completion
from forebay.protocol.xml.s3_documents import UploadedPart, read_parts_cooperatively


def uploaded_parts(body: bytes) -> list[UploadedPart]:
    return run_to_completion(read_parts_cooperatively(body))
