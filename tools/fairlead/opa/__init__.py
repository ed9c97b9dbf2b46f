"""OPA: its REST API, its program, and the arguments that it is started with."""
