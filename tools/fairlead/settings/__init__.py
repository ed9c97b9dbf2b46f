"""fairlead.yaml: the settings, their defaults, and how they are loaded."""
