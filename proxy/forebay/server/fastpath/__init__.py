"""The fast lane: hits without a task, a framework or a copy of the body; and what it keeps to recognise them."""
