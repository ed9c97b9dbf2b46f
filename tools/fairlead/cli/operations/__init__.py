"""Commands about Fairlead in a cluster: bring it there, change its policies, and see how it is."""
