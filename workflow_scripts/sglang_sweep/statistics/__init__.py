"""Turns the numbers of launches into verdicts that hold up, at the least GPU time."""
