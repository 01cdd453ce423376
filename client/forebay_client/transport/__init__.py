"""How requests of the client library travel: the contract, HTTP, retries."""
