#include "engine/bounds.h"

#include "base/error.h"
#include "base/text.h"

static const struct {
    const char *name;
    size_t offset;
    uint64_t most;
} BOUNDS[] = {
#define BOUND(field, bits)                                                                                             \
    {                                                                                                                  \
#field, offsetof(struct kva_deployment, field), UINT64_C(1) << (bits)                                          \
    }
    BOUND(context, 50),      BOUND(sequences, 40),   BOUND(max_sequences, 32), BOUND(block_size, 32),
    BOUND(batch_tokens, 40), BOUND(spec_tokens, 20), BOUND(draft_layers, 13),  BOUND(kv_tokens, 50),
    BOUND(kv_blocks, 50),    BOUND(mamba_slots, 40), BOUND(kv_bytes, 62),      BOUND(gpu_bytes, 62),
#undef BOUND
};

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
