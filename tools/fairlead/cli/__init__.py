"""One module a command: it parses and prints, and calls one library function."""
