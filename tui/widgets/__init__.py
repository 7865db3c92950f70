"""The panes of the live screen, one a file."""
