"""A model's folder brings no code into our processes unless the campaign says so."""

import subprocess
import sys
from pathlib import Path

from sglang_sweep.campaign.flags import client_flag_problems

CLIENT = Path(__file__).parents[2] / "workflow_scripts" / "bench_client.py"

TRANSFORMERS = """
class _Auto:
    @classmethod
    def from_pretrained(cls, name, **options):
        return f"{cls.__name__} {name} {options['trust_remote_code']}"
class AutoTokenizer(_Auto): pass
class AutoProcessor(_Auto): pass
class AutoConfig(_Auto): pass
"""


def test_every_loader_that_sglangs_client_trusts_is_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text(TRANSFORMERS)
    program = (
        "import bench_client; bench_client._refuse_code_of_models(); import transformers as t;"
        "print([getattr(t, n).from_pretrained('m', trust_remote_code=True)"
        " for n in ('AutoTokenizer', 'AutoProcessor', 'AutoConfig')])"
    )
    paths = {"PYTHONPATH": f"{tmp_path}:{CLIENT.parent}"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=paths, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['AutoTokenizer m False', 'AutoProcessor m False', 'AutoConfig m False']\n"


def test_a_campaign_does_not_send_the_load_client_elsewhere() -> None:
    wrong = client_flag_problems(
        {"base-url": "http://other", "output-file": "/x"}, Path("c.yaml"), "w.bench_flags"
    )
    assert [error.key for error in wrong] == ["w.bench_flags.base-url", "w.bench_flags.output-file"]
