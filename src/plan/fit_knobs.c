#include "plan/fit_knobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"

// How the values of a knob are tried.
enum way {
    SET,         // one of a few values, as typed
    CLEAR,       // the count back to 0: what it asks for is not wanted
    LOWER,       // the largest count below the one that holds now
    HIGHER,      // the smallest of 2, 4, 8, ... times the one that holds now
    FRACTION,    // the smallest share, in hundredths
    MORE_BYTES,  // the smallest number of bytes above the one that holds now
    BYTES,       // the largest number of bytes below the one that holds now
    GPU,         // another accelerator of the catalogue, the smallest that works
};

struct knob {
    const char *flag;
    enum way way;
    size_t field;  // offset in struct kva_deployment
    const char *values[6];
    const char *cost;
};

#define FIELD(member) offsetof(struct kva_deployment, member)

// What costs least comes first: nothing, then a slower prompt, then a slower answer, then accuracy, then fewer or
// shorter conversations, then money.
static const struct knob KNOBS[] = {
    {"--memory-fraction", FRACTION, FIELD(memory_fraction), {NULL}, "nothing, while nobody else uses the GPU"},
    {"--hybrid-kv-cache-manager", SET, FIELD(hybrid_manager), {"on"}, "nothing: windows keep what they need"},
    {"--swa-full", SET, FIELD(swa_full), {"off"}, "no reuse of prompts across windows"},
    {"--kv-unified", SET, FIELD(kv_unified), {"on", "off"}, "sequences share one pool, or each has its own"},
    {"--flash-attn", SET, FIELD(flash_attention), {"on"}, "nothing where the backend has it"},
    {"--manager", SET, FIELD(manager), {"v2", "v1"}, "another cache manager"},
    {"--max-num-seqs", LOWER, FIELD(max_sequences), {NULL}, "fewer sequences at a time"},
    {"--max-num-batched-tokens", LOWER, FIELD(batch_tokens), {NULL}, "prompts are read in smaller pieces"},
    {"--ubatch-size", LOWER, FIELD(ubatch), {NULL}, "prompts are read in smaller pieces"},
    {"--enable-prefix-caching", SET, FIELD(prefix_caching), {"off"}, "prompts seen before are read again"},
    {"--num-speculative-tokens", CLEAR, FIELD(spec_tokens), {NULL}, "no speculative decoding: slower answers"},
    {"--kv-dtype", SET, FIELD(kv_type), {"fp8", "fp8_e4m3", "q8_0", "int8"}, "cached values are rounded to 8 bits"},
    {"--kv-dtype", SET, FIELD(kv_type), {"nvfp4", "q4_0", "int4"}, "cached values are rounded to 4 bits"},
    {"--sequences", LOWER, FIELD(sequences), {NULL}, "fewer sequences at a time"},
    {"--context", LOWER, FIELD(context), {NULL}, "shorter sequences"},
    {"--weight-bytes", BYTES, FIELD(weight_bytes), {NULL}, "weights quantized to so much on a rank"},
    {"--kv-bytes", MORE_BYTES, FIELD(kv_bytes), {NULL}, "memory for caches"},
    {"--tp", HIGHER, FIELD(tp), {NULL}, "GPUs side by side, with a fast link"},
    {"--pp", HIGHER, FIELD(pp), {NULL}, "GPUs one after another"},
    {"--gpu", GPU, FIELD(gpu), {NULL}, "a larger GPU"},
};
enum { N_KNOBS = sizeof KNOBS / sizeof *KNOBS };

struct turning {
    struct kva_search *search;
    const struct kva_plan *plan;
    struct kva_arena *arena;
    struct kva_fit_knob *knobs;
    size_t *n;
    struct kva_error *error;
};

static enum kva_status works(struct turning *turning, const struct knob *knob, const char *value, const char *now)
{
    if (value == NULL || now == NULL)
        return kva_fail_memory(turning->error, 0);
    turning->knobs[(*turning->n)++] =
        (struct kva_fit_knob){.flag = knob->flag, .value = value, .now = now, .cost = knob->cost};
    return KVA_OK;
}

static const char *count_words(const struct turning *turning, uint64_t count)
{
    return count == 0 ? "" : kva_arena_printf(turning->arena, "%llu", (unsigned long long)count);
}

static uint64_t resolved(const struct turning *turning, const struct knob *knob)
{
    return *(const uint64_t *)((const char *)&turning->plan->deployment + knob->field);
}

static uint64_t *tried(const struct turning *turning, const struct knob *knob)
{
    return (uint64_t *)((char *)&turning->search->deployment + knob->field);
}

static enum kva_status turn_count(struct turning *turning, const struct knob *knob, uint64_t found)
{
    return found == 0
               ? KVA_OK
               : works(turning, knob, count_words(turning, found), count_words(turning, resolved(turning, knob)));
}

static enum kva_status set(struct turning *turning, const struct knob *knob)
{
    const struct kva_deployment before = turning->search->deployment;
    for (size_t v = 0; v < sizeof knob->values / sizeof *knob->values && knob->values[v] != NULL; v++) {
        bool fits = false;
        enum kva_status status = KVA_OK;
        if (kva_deployment_set(&turning->search->deployment, knob->flag, knob->values[v], NULL) == KVA_OK) {
            if (knob->field == FIELD(kv_type))
                turning->search->deployment.kv_dtype = KVA_DTYPE_NONE;
            status = kva_search_fits(turning->search, &fits);
        }
        turning->search->deployment = before;
        if (status != KVA_OK)
            return status;
        if (fits) {
            const char *now = knob->field == FIELD(kv_type) ? turning->plan->deployment.kv_type : "";
            return works(turning, knob, knob->values[v], now != NULL ? now : "");
        }
    }
    return KVA_OK;
}

static enum kva_status clear(struct turning *turning, const struct knob *knob)
{
    uint64_t *field = tried(turning, knob);
    const uint64_t before = *field;
    bool fits = false;
    *field = 0;
    enum kva_status status = before > 0 ? kva_search_fits(turning->search, &fits) : KVA_OK;
    *field = before;
    return status == KVA_OK && fits ? works(turning, knob, "0", count_words(turning, before)) : status;
}

static enum kva_status lower(struct turning *turning, const struct knob *knob)
{
    const uint64_t now = resolved(turning, knob);
    uint64_t found = 0;
    enum kva_status status = KVA_OK;
    if (now > 1 && now != KVA_UNKNOWN)
        status = kva_search_largest(turning->search, tried(turning, knob), now - 1, &found);
    return status == KVA_OK ? turn_count(turning, knob, found) : status;
}

static enum kva_status higher(struct turning *turning, const struct knob *knob)
{
    enum { MOST = 64 };
    uint64_t *field = tried(turning, knob);
    const uint64_t before = *field, now = kva_max(resolved(turning, knob), 1);
    bool fits = false;
    enum kva_status status = KVA_OK;
    uint64_t ranks = now;
    while (status == KVA_OK && !fits && ranks < MOST) {
        ranks *= 2;
        *field = ranks;
        status = kva_search_fits(turning->search, &fits);
    }
    *field = before;
    return status == KVA_OK && fits ? turn_count(turning, knob, ranks) : status;
}

// Does the budget come from a GPU's memory?
static bool from_gpu(const struct turning *turning)
{
    return turning->search->deployment.kv_bytes == 0 && turning->plan->deployment.gpu_bytes > 0;
}

static enum kva_status fraction(struct turning *turning, const struct knob *knob)
{
    enum { MOST = 98 };  // hundredths: some of a GPU is always taken
    double *field = &turning->search->deployment.memory_fraction;
    const double before = *field, now = turning->plan->deployment.memory_fraction;
    bool fits = false;
    if (!from_gpu(turning) || now <= 0)
        return KVA_OK;
    int low = (int)(now * 100 + 1e-9) + 1, high = MOST;
    enum kva_status status = KVA_OK;
    if (low <= high) {
        *field = high / 100.0;
        status = kva_search_fits(turning->search, &fits);
    }
    while (status == KVA_OK && fits && low < high) {
        const int middle = low + (high - low) / 2;
        bool here;
        *field = middle / 100.0;
        status = kva_search_fits(turning->search, &here);
        if (here)
            high = middle;
        else
            low = middle + 1;
    }
    *field = before;
    if (status != KVA_OK || !fits)
        return status;
    return works(turning, knob, kva_arena_printf(turning->arena, "%.2f", high / 100.0),
                 kva_arena_printf(turning->arena, "%g", now));
}

static enum kva_status more_bytes(struct turning *turning, const struct knob *knob)
{
    const uint64_t now = turning->search->deployment.kv_bytes;
    uint64_t found = 0;
    enum kva_status status = KVA_OK;
    if (now > 0 && now < UINT64_C(1) << 46)
        status = kva_search_smallest(turning->search, tried(turning, knob), now + 1, UINT64_C(1) << 46, &found);
    return status == KVA_OK ? turn_count(turning, knob, found) : status;
}

static enum kva_status bytes(struct turning *turning, const struct knob *knob)
{
    return from_gpu(turning) ? lower(turning, knob) : KVA_OK;
}

static int by_memory(const void *a, const void *b)
{
    const struct kva_gpu *x = *(const struct kva_gpu *const *)a, *y = *(const struct kva_gpu *const *)b;
    return (x->total_bytes > y->total_bytes) - (x->total_bytes < y->total_bytes);
}

// Those of the same maker, none that shares its memory with a CPU.
static enum kva_status another_gpu(struct turning *turning, const struct knob *knob)
{
    struct kva_deployment *deployment = &turning->search->deployment;
    const struct kva_deployment before = *deployment;
    const struct kva_gpu *now = turning->plan->deployment.gpu_facts, **gpus = NULL;
    size_t n_gpus = 0;
    if (!from_gpu(turning) || now == NULL || turning->search->atlas == NULL)
        return KVA_OK;
    enum kva_status status = kva_gpus_open(turning->search->atlas, NULL, &gpus, &n_gpus, turning->error);
    if (status == KVA_OK)
        qsort(gpus, n_gpus, sizeof(const struct kva_gpu *), by_memory);
    for (size_t g = 0; status == KVA_OK && g < n_gpus; g++) {
        bool fits = false;
        if (gpus[g]->total_bytes <= turning->plan->deployment.gpu_bytes || gpus[g]->unified ||
            strcmp(gpus[g]->vendor, now->vendor) != 0)
            continue;
        deployment->gpu = gpus[g]->id;
        deployment->gpu_facts = NULL;
        deployment->gpu_bytes = 0;
        status = kva_search_fits(turning->search, &fits);
        *deployment = before;
        if (status == KVA_OK && fits) {
            status = works(turning, knob, gpus[g]->id, now->id);
            break;
        }
    }
    free(gpus);
    return status;
}

static enum kva_status turn(struct turning *turning, const struct knob *knob)
{
    switch (knob->way) {
    case SET:
        return set(turning, knob);
    case CLEAR:
        return clear(turning, knob);
    case LOWER:
        return lower(turning, knob);
    case HIGHER:
        return higher(turning, knob);
    case FRACTION:
        return fraction(turning, knob);
    case MORE_BYTES:
        return more_bytes(turning, knob);
    case BYTES:
        return bytes(turning, knob);
    case GPU:
        break;
    }
    return another_gpu(turning, knob);
}

enum kva_status kva_fit_knobs(struct kva_search *search, const struct kva_plan *plan, struct kva_arena *arena,
                              struct kva_fit_knob **knobs, size_t *n, struct kva_error *error)
{
    *n = 0;
    *knobs = kva_arena_alloc(arena, N_KNOBS, sizeof **knobs);
    if (*knobs == NULL)
        return kva_fail_memory(error, N_KNOBS * sizeof **knobs);
    struct turning turning = {.search = search, .plan = plan, .arena = arena, .knobs = *knobs, .n = n, .error = error};
    enum kva_status status = KVA_OK;
    for (size_t k = 0; status == KVA_OK && k < N_KNOBS; k++)
        status = turn(&turning, &KNOBS[k]);
    return status;
}
