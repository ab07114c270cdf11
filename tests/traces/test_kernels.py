import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.traces.kernels import load

CUSTOM_0516 = (
    "void (anonymous namespace)::all_reduce_kernel<(anonymous namespace)::AllReducePushImpl<bf16, 2u>>"
)


@pytest.mark.parametrize(
    ("name", "kernel_class", "path"),
    [
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", "all_reduce", "RING_LL"),
        ("ncclDevKernel_AllReduce_Sum_bf16_TREE_LL(x)", "all_reduce", "TREE_LL"),
        ("ncclDevKernel_AllReduce_Sum_f16_RING_LL128(x)", "all_reduce", "RING_LL128"),
        ("ncclDevKernel_AllReduce_Sum_f32_TREE_SIMPLE(x)", "all_reduce", "TREE_SIMPLE"),
        ("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_Sum_bf16(x)", "all_reduce", "nccl_symmetric"),
        ("ncclDevKernel_AllGather_RING_LL(x)", "other_collective", "RING_LL"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "other_collective", None),
        ("ncclDevKernel_SendRecv(x)", "other_collective", None),
        (CUSTOM_0516, "all_reduce", "custom"),
        ("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 2>(x)", "all_reduce", "custom"),
        ("all_reduce_2shot_pull_kernel<bf16>", "all_reduce", "custom"),
        ("ipc_topo_rsag8_push_param_kernel", "all_reduce", "pcie_ipc"),
        ("allreduce_fusion_kernel_oneshot_lamport<x>", "all_reduce", "flashinfer_fusion"),
        ("multimem_all_reduce_kernel", "all_reduce", "torch_symm_mem"),
        ("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", "gemm", None),
        ("void cutlass::device_kernel<flash::FlashAttnFwdSm90<x>>", "attention", None),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", "gemm", None),
        ("fused_moe_kernel", "gemm", None),
        ("void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>", "norm_activation", None),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<x>", "attention", None),
        ("Memcpy DtoH (Device -> Pinned)", "copy", None),
        ("_fwd_kernel", "attention", None),
        ("_draft_topk1_finalize_kernel", "sampling", None),
    ],
)  # fmt: skip
def test_a_kernel_is_put_into_its_class(name, kernel_class, path):
    meaning = load().kernels(name)
    assert (meaning.kernel_class, meaning.path) == (kernel_class, path)


def test_an_unknown_name_is_unmatched_and_never_guessed():
    assert not load().kernels("zzz_mystery").matched


def test_a_pattern_of_another_version_matches_but_is_not_trusted():
    assert load("0.5.16").kernels(CUSTOM_0516).trusted
    assert not load("0.5.20").kernels(CUSTOM_0516).trusted


def test_a_version_that_is_none_is_refused():
    with pytest.raises(UserError, match="is not a version"):
        load("newest")
