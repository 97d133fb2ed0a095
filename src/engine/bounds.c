#include "engine/bounds.h"

#include "base/error.h"
#include "base/text.h"

// clang-format off
static const struct {
    const char *name;
    size_t offset;
    uint64_t most;
} BOUNDS[] = {
#define BOUND(field, bits) {#field, offsetof(struct kva_deployment, field), UINT64_C(1) << (bits)}
    BOUND(context, 50),      BOUND(sequences, 40),      BOUND(max_sequences, 24), BOUND(block_size, 24),
    BOUND(batch_tokens, 32), BOUND(spec_tokens, 12),    BOUND(draft_layers, 13),  BOUND(kv_tokens, 50),
    BOUND(kv_blocks, 50),    BOUND(mamba_slots, 40),    BOUND(kv_bytes, 62),      BOUND(gpu_bytes, 62),
    BOUND(ubatch, 32),       BOUND(encoder_tokens, 50), BOUND(rs_seq, 12),        BOUND(mamba_block_size, 32),
#undef BOUND
};
// clang-format on

enum kva_status kva_check_bounds(struct kva_call *call)
{
    char human[KVA_HUMAN];
    for (size_t b = 0; b < sizeof BOUNDS / sizeof *BOUNDS; b++) {
        const uint64_t value = *(const uint64_t *)((const char *)call->deployment + BOUNDS[b].offset);
        if (value > BOUNDS[b].most)
            return kva_fail(call->error, KVA_BAD_INPUT, NULL, BOUNDS[b].name, "%s is beyond what any machine has",
                            kva_human_count(value, human));
    }
    return KVA_OK;
}
