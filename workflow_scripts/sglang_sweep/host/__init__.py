"""The machine: what it is, what moves performance on it, and what changed."""
