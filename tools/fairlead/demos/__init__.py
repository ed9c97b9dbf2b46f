"""What `fairlead demo` does and shows."""
