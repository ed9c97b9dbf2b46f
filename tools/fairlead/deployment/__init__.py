"""What is applied to a cluster: manifests and credentials, also for other tools."""
