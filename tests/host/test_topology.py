"""nvidia-smi's matrices as link classes and peer-to-peer states."""

import pytest
from sglang_sweep.host.sources import Unreadable
from sglang_sweep.host.topology import parse_p2p, parse_topology

# Pasted into local-inference-lab/rtx6kpro issue 15: blanks instead of tabs.
PASTED = """
        GPU0    GPU1    CPU Affinity    NUMA Affinity
GPU0     X      PHB     0-13            0
GPU1    PHB      X      0-13            0
"""

# Constructed after the layout of nvidia-smi with network cards.
WITH_NICS = """\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPXB\tNODE\t0-63\t0\t\tN/A
GPU1\tPXB\t X \tNODE\t0-63\t0\t\tN/A
NIC0\tNODE\tNODE\t X \t\t\t\t

Legend:

  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)

NIC Legend:

  NIC0: mlx5_0
"""


def test_a_matrix_pasted_with_blanks_is_read_like_one_with_tabs() -> None:
    table = parse_topology(PASTED)
    assert table["links"] == [[None, "PHB"], ["PHB", None]]
    assert table["numa_affinity"] == ["0", "0"] and table["cpu_affinity"] == ["0-13", "0-13"]


def test_network_cards_are_left_out_of_the_links_between_gpus() -> None:
    table = parse_topology(WITH_NICS)
    assert table["links"] == [[None, "PXB"], ["PXB", None]]
    assert table["summary"] == "1x PXB"


def test_peer_to_peer_states_are_spelled_out() -> None:
    text = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tNS\tX\t\n\nLegend:\n"
    assert parse_p2p(text) == [[None, "chipset not supported"], ["not supported", None]]


@pytest.mark.parametrize("text", ["", "No devices were found", "\tGPU0\tGPU1\nGPU0\t X \tPHB\n"])
def test_an_answer_without_a_whole_matrix_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        parse_topology(text)
    with pytest.raises(Unreadable):
        parse_p2p(text)
