"""The command `forebay` and its client of the admin port. Imports the standard library and rich, nothing else."""
