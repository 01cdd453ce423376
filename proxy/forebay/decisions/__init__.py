"""Floor 2: what to do, as pure functions of words, settings and the time that is handed in."""
