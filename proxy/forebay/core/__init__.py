"""Names, byte ranges, heads, units, errors, events, fences, the tasks that outlive a request, and the values that rooms
and processes pass to each other (records, progress, pending writes). Imports no other room."""
