"""The only place that touches files: the Storage protocol and its implementations."""
