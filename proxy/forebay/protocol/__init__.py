"""Bytes on the wire as pure functions: S3, OSS and HTTP, and Forebay's own formats (batches, packs, recordings, frames
of the Unix socket). No socket, no event loop, no clock."""
