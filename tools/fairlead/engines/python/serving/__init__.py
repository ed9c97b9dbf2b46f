"""`fairlead serve`: an admission webhook that decides by the intents in Python."""
