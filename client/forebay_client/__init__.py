"""What users import and type: the command line and the admin client. Standard library and rich, nothing else."""

__version__ = "0.1.0"
