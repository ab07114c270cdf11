"""What a campaign will launch on this host, in which order and at what cost."""
