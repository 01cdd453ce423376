"""The verbs of the admin port over one worker."""
