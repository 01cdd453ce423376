"""Pack jobs: write packs, verify them, take members out of them, and make objects of members again."""
