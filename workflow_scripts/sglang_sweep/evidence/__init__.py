"""Turns what a launch left behind (log, server_info, metrics, traces) into outcome, cause, engagement, confounds."""
