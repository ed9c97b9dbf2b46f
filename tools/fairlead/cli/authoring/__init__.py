"""Commands for authors of policies: start a repository, write policies and settings, test them."""
