"""What is applied to a cluster: manifests, credentials, and the forms in which other tools get
them."""
