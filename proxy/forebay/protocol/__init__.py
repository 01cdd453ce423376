"""What the bytes on the wire mean: S3 and HTTP without input and output. No socket, no event loop, no clock."""
