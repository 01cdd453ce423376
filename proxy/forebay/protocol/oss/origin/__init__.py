"""OSS as the origin: what Forebay asks of it, in its own terms, and what it answers, in those of S3."""
