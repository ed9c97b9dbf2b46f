"""`fairlead shadow`: asks two engines about the same requests, and reports where they disagree."""
