"""Bodies of requests: aws-chunked framing, signatures of chunks, checksums."""
