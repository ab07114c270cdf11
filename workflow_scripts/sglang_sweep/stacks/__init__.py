"""Stacks and models: the software a server runs in and what it serves, content-addressed and shared."""
