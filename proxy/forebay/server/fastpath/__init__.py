"""The fast lane: hits without a task, a framework or a copy of the body, and the templates that recognise their
requests."""
