"""One module for each command: it parses options, calls one library function, and prints the
result."""
