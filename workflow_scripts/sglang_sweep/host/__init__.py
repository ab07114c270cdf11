"""The machine: what it is, what moves performance on it, whether it can run what is asked, what changed."""
