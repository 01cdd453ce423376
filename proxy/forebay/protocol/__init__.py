"""S3 and HTTP as pure functions: parsing and writing of messages. No socket, no event loop, no clock."""
