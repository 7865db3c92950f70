"""The screens and dialogues, one a file."""
