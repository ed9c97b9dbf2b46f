"""Commands about decisions: what the policies decide about requests and about a whole cluster."""
