"""The laboratory: what tests and measures Fairlead in a checkout, and nobody installs."""
