"""Load: signed requests, a generator of our own and wrk, single connections that check what they read."""
