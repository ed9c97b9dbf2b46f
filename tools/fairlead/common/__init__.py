"""What every package may use: errors, files, paths, progress, waiting. It imports no other
package."""
