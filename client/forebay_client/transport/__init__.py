"""The transport of the client library's requests: the contract, HTTP, retries."""
