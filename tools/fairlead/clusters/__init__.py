"""Where Fairlead runs: one protocol (base), and a module or package for each kind of cluster."""
