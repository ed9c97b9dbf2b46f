"""The API server: clients, discovery, admission reviews, labels, and the names of resources."""
