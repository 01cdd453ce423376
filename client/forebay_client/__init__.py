"""The command `forebay` and the client of the admin port. Imports the standard library and rich, nothing else."""

__version__ = "0.1.0"
