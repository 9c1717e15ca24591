"""The kinds: their fields, rules, states and reasons, and how manifests become them. Pure."""
