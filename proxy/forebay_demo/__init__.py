"""The embedded origin: a real object store with a sample data set, for those who have no origin yet, and the demo."""
