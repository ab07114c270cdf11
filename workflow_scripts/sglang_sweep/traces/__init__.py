"""Where a step's time goes: torch-profiler traces, collectives, and the economics of speculation."""
