"""Object metadata: what is known of objects besides their bytes (version, permissions, checksums), and the lookups that
bring it."""
