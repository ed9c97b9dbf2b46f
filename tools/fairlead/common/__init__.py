"""What every package may use: errors, files, locks, paths, progress, waiting."""
