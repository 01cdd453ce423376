"""The client library and, in `cli`, the command `forebay`. A plain import of it imports nothing else."""

__version__ = "0.1.0"
