"""Records, YAML, digests and redaction: what every step reads and writes with."""
