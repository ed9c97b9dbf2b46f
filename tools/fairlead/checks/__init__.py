"""Checks policies: those of a repository, and of a checkout of Fairlead."""
