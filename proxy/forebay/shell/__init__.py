"""Floor 6: where the program meets the machine: command line, sockets, files, clocks, signals."""
