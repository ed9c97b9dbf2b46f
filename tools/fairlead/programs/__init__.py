"""External programs: Docker, kind, images, and the toolchain that builds the rest."""
