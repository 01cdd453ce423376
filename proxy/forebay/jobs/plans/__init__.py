"""Plans: the order in which a job will read, and the fetching ahead of it."""
