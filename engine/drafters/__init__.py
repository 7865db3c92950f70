"""Drafters: whatever guesses the next tokens. One idea a file; ``engine.registry`` knows their names."""
