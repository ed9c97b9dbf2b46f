"""What servers of admission webhooks in Python share: connections, bodies, namespaces."""
