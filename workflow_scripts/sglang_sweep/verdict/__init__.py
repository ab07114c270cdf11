"""Statistics and evidence joined: what is concluded, whether to go on, what reopens it."""
