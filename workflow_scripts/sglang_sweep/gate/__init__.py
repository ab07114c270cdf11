"""May it run here? Checks of host, stack and variants, and dead ends predicted before any GPU time."""
