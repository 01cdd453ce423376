"""The folder that `forebay run` puts in front of PYTHONPATH: nothing in it is imported by name."""
