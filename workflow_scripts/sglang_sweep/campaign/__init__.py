"""What a campaign declares: its model, checks, flags and launch keys."""
