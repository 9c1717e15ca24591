"""The outside without a cluster: manifests in a folder, jobs as local processes."""
