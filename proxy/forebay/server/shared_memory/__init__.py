"""The Unix socket for clients on this machine, and memory that they share with a worker."""
