"""Turn one arm's logs, server_info, metrics and traces into evidence. Rule: evidence."""

from pathlib import Path

from sglang_sweep.evidence.arm import assess_arm
from sglang_sweep.files.records import write_json
from sglang_sweep.job import logged

with logged(snakemake.log[0]):
    paths = {
        name: [Path(path) for path in snakemake.input.get(name, [])]
        for name in ("launches", "baseline", "profile")
    }
    write_json(
        Path(snakemake.output[0]),
        assess_arm(
            snakemake.params.change,
            paths["launches"],
            paths["baseline"],
            paths["profile"][0] if paths["profile"] else None,
        ),
    )
