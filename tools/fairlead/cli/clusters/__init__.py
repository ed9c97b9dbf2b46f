"""Commands about local clusters: start them, list them, and see Fairlead at work in one."""
