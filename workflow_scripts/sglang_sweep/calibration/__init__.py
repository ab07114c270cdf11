"""The statistics checked on simulated hosts. Nothing imports it."""
