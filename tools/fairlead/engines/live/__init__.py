"""What a real API server serves, and what it has in force."""
