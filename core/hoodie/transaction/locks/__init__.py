"""The table lock: its providers, and the addresses that name them."""
