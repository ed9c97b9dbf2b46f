"""What `fairlead demo` and `fairlead access demo` do and show."""
