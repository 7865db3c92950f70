"""A recording as a document: HTML, Markdown, JSON, CSV."""
