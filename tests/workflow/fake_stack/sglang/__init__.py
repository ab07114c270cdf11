"""Stands in for SGLang in workflow tests: a recorded server's answers, without its minutes."""
