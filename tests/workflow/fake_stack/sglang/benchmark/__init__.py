"""Stands in for SGLang's load client."""
