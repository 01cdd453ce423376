"""The RPC server of a worker: the methods that other workers and the supervisor call."""
