"""`make bench`: Fairlead and other programs that place pods, side by side in one cluster, and in
comparison with a cluster that has no policy. bench/README.md says what is measured, and how."""
