"""Commands that run as long as a pod, beside OPA or in its place; `fairlead --help` hides them."""
