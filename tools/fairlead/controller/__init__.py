"""`fairlead controller`: renews OPA's certificate, enables intents in time, and gives access that
ends."""
