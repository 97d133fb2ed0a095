// What the module exports: the table of operations, through the function that KVA_KERNELS_SYMBOL names.
#include "cuda.cuh"

static struct kva_kernels make_table(void)
{
    struct kva_kernels table = {};
    table.abi = KVA_KERNELS_ABI;
    table.name = "cuda";
    table.open = cuda_open;
    table.close = cuda_close;
    table.info = cuda_info;
    table.alloc = cuda_alloc;
    table.free = cuda_free;
    table.used = cuda_used;
    table.set_workspace = cuda_set_workspace;
    table.workspace_bytes = KVA_CUDA_WORKSPACE;
    table.upload = cuda_upload;
    table.download = cuda_download;
    table.clear = cuda_clear;
    table.sync = cuda_sync;
    table.profile = cuda_profile;
    table.stage_begin = cuda_stage_begin;
    table.stage_end = cuda_stage_end;
    table.stage_times = cuda_stage_times;
    table.stage_reset = cuda_stage_reset;
    table.ceilings = cuda_ceilings;
    table.fill = cuda_fill;
    table.embed = cuda_embed;
    table.linear = cuda_linear;
    table.add_bias = cuda_add_bias;
    table.add = cuda_add;
    table.norm = cuda_norm;
    table.head_norm = cuda_head_norm;
    table.rope = cuda_rope;
    table.attention = cuda_attention;
    table.cache_write = cuda_cache_write;
    table.glu = cuda_glu;
    table.conv = cuda_conv;
    table.scan = cuda_scan;
    table.gate = cuda_gate;
    table.differential = cuda_differential;
    table.gather = cuda_gather;
    table.softcap = cuda_softcap;
    table.argmax = cuda_argmax;
    return table;
}

static const struct kva_kernels table = make_table();

extern "C" __attribute__((visibility("default"))) const struct kva_kernels *kva_kernels(void)
{
    return &table;
}
