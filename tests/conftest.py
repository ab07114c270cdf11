"""Property tests give the same answer on a busy machine: neither a deadline nor slow data generation fails them."""

from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
