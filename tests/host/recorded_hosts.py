"""Where recorded and constructed hosts lie, and their names."""

from pathlib import Path

HOSTS = Path(__file__).parents[1] / "recordings" / "hosts"
NAMES = sorted(folder.name for folder in HOSTS.iterdir() if folder.is_dir())
