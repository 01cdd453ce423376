"""Names, byte ranges, heads, units, errors, events, fences, and the tasks that outlive a request. Imports no other
room."""
