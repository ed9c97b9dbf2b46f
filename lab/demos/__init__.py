"""What `make demo-federation` and `make demo-access` do and show."""
