"""Values to manifests of Kubernetes, and what Kubernetes tells to facts; all of it pure."""
