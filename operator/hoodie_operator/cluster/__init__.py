"""The operator in a cluster: watching, deciding one at a time, acting, telling."""
