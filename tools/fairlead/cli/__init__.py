"""One module for each command, in packages by subject: it parses options, calls one library
function, and prints the result."""
