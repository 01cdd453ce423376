"""What is known of objects without their bytes: the current version, permissions, checksums."""
