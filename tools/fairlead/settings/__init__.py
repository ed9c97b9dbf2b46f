"""fairlead.yaml: the models of the settings, their defaults, and loading."""
