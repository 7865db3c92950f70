"""The speculative decoding engine: torch and transformers inside, no terminal anywhere."""

__version__ = "0.1.0"
