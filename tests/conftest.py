"""Property tests give the same answer on a busy machine; tests wait for no campaign that is measured on this host."""

import os
import tempfile

from hypothesis import HealthCheck, settings

settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

os.environ.setdefault("SGLANG_SWEEP_LOCKS", tempfile.mkdtemp(prefix="sglang-sweep-test-locks-"))
