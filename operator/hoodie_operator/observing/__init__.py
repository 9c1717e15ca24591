"""Looking at tables and sources, in the operator's process or in observers beside the storage."""
