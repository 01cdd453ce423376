"""Request bodies: aws-chunked framing, chunk signatures, checksums."""
