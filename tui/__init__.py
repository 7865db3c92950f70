"""Everything that faces the terminal."""
