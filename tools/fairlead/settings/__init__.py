"""The models of the settings, and their defaults. fairlead.policy.fairlead_yaml reads the file."""
