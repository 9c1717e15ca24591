"""The Kubernetes operator for Hudi tables: the kinds, their rules, and what is done about them."""
