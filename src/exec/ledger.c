#include "exec/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

static const char *const PURPOSES[KVA_N_PURPOSES] = {
    [KVA_WEIGHTS] = "weights",
    [KVA_CACHE] = "cache",
    [KVA_ACTIVATIONS] = "activations",
    [KVA_WORKSPACE] = "workspace",
};

const char *kva_purpose_name(enum kva_purpose purpose)
{
    return purpose < KVA_N_PURPOSES ? PURPOSES[purpose] : "unknown";
}

static enum kva_status grow(struct kva_ledger *ledger, struct kva_error *error)
{
    const size_t capacity = ledger->capacity == 0 ? 64 : ledger->capacity * 2;
    struct kva_allocation *entries = realloc(ledger->entries, capacity * sizeof *entries);
    if (entries == NULL)
        return kva_fail_memory(error, capacity * sizeof *entries);
    ledger->entries = entries;
    void **memory = realloc(ledger->memory, capacity * sizeof *memory);
    if (memory == NULL)
        return kva_fail_memory(error, capacity * sizeof *memory);
    ledger->memory = memory;
    ledger->capacity = capacity;
    return KVA_OK;
}

// "layer 17 cache: 671088640 bytes asked, 1048576 bytes free; the whole run was predicted to take 8 bytes"
static enum kva_status fail_allocation(const struct kva_ledger *ledger, int32_t layer, enum kva_purpose purpose,
                                       const struct kva_error *cause, struct kva_error *error)
{
    char what[64], predicted[96] = "";
    if (layer >= 0)
        snprintf(what, sizeof what, "layer %" PRId32 " %s", layer, PURPOSES[purpose]);
    else
        snprintf(what, sizeof what, "%s", PURPOSES[purpose]);
    if (ledger->predicted > 0)
        snprintf(predicted, sizeof predicted, "; the whole run was predicted to take %" PRIu64 " bytes",
                 ledger->predicted);
    return kva_fail(error, KVA_MACHINE, NULL, what, "out of %s memory: %s%s", ledger->kernels->name, cause->text,
                    predicted);
}

enum kva_status kva_ledger_alloc(struct kva_ledger *ledger, int32_t layer, enum kva_purpose purpose, uint64_t bytes,
                                 void **memory, struct kva_error *error)
{
    if (ledger->n == ledger->capacity) {
        const enum kva_status status = grow(ledger, error);
        if (status != KVA_OK)
            return status;
    }
    struct kva_error cause = {0};
    const uint64_t before = ledger->kernels->used(ledger->device);
    if (ledger->kernels->alloc(ledger->device, bytes, memory, &cause) != KVA_OK)
        return fail_allocation(ledger, layer, purpose, &cause, error);
    const uint64_t after = ledger->kernels->used(ledger->device);
    ledger->memory[ledger->n] = *memory;
    ledger->entries[ledger->n++] = (struct kva_allocation){layer, purpose, bytes, after - before};
    return ledger->kernels->clear(ledger->device, *memory, bytes, error);
}

void kva_ledger_release(struct kva_ledger *ledger)
{
    while (ledger->n > 0) {
        ledger->n--;
        ledger->kernels->free(ledger->device, ledger->memory[ledger->n], ledger->entries[ledger->n].asked);
    }
    free(ledger->entries);
    free(ledger->memory);
    ledger->entries = NULL;
    ledger->memory = NULL;
    ledger->capacity = 0;
}
