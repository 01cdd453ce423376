"""The RPC server of a worker: what it answers the other workers and the supervisor."""
