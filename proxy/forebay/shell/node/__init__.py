"""Several workers on one node: the supervisor, the processes it keeps, and the socket each of them is asked on."""
