"""The fast lane: hits answered without a task, a framework or a copy of the body."""
