// What one step of decoding moves and computes, and how fast a GPU could do it at best. The weights are read once a
// step and serve all sequences; every sequence reads its own caches. What is counted is a lower bound on the bytes, so
// that the rate is one that no implementation passes.
#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "engine/cache_bytes.h"
#include "engine/memory.h"
#include "engine/parallel.h"
#include "model/arch.h"
#include "plan/groups.h"

// Sums where KVA_UNKNOWN is contagious.
static void add(uint64_t *total, uint64_t bytes)
{
    if (*total == KVA_UNKNOWN || bytes == KVA_UNKNOWN || !kva_add(*total, bytes, total))
        *total = KVA_UNKNOWN;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return a != KVA_UNKNOWN && b != KVA_UNKNOWN && kva_mul(a, b, &product) ? product : KVA_UNKNOWN;
}

struct count {
    const struct kva_plan *plan;
    struct kva_decode *decode;
    struct kva_arena *arena;
    size_t *kind_of;         // [model->n_layers] index in decode->kinds
    size_t outside;          // index of the kind that is outside the layers
    uint64_t heads;          // query heads of one rank; KVA_UNKNOWN
    uint64_t experts, used;  // of a mixture; 0: none is known
    bool attention_unknown;  // what a layer reads cannot be told
    bool as_a_whole;         // weights are not known by kind
    struct kva_error *error;
};

static enum kva_status note(struct count *count, const char *text)
{
    struct kva_decode *decode = count->decode;
    for (size_t i = 0; i < decode->n_notes; i++)
        if (strcmp(decode->notes[i], text) == 0)
            return KVA_OK;
    if (decode->n_notes < KVA_MAX_DECODE_NOTES)
        decode->notes[decode->n_notes++] = text;
    return KVA_OK;
}

static uint64_t value_of(const struct kva_model *model, const char *name, uint64_t missing)
{
    const struct kva_value *value = kva_model_value(model, name);
    return value != NULL && value->type == KVA_COUNT ? value->count : missing;
}

// ---------------------------------------------------------------- weights

// How many of the experts one step reads: each token takes `used` of `experts`, as if all were equally likely.
static double experts_read(const struct count *count)
{
    const double missed = 1 - (double)count->used / (double)count->experts;
    return 1 - pow(missed, (double)count->plan->deployment.sequences);
}

// part: at most 1; whole numbers stay exact.
static uint64_t share(uint64_t whole, double part)
{
    return whole == KVA_UNKNOWN || part >= 1 ? whole : (uint64_t)((double)whole * part + 0.5);
}

static uint64_t of_rank(uint64_t whole, uint64_t tp)
{
    return whole == KVA_UNKNOWN ? KVA_UNKNOWN : kva_ceil_div(whole, tp);
}

// A tensor of which one rank holds a share; `of_table`: it is looked up and not multiplied with.
static void count_tensor(struct count *count, const struct kva_tensor *tensor, bool of_table)
{
    const uint64_t tp = count->plan->deployment.tp;
    struct kva_decode_kind *kind =
        &count->decode->kinds[tensor->layer >= 0 && (size_t)tensor->layer < count->plan->model->n_layers
                                  ? count->kind_of[tensor->layer]
                                  : count->outside];
    uint64_t parameters = tensor->copies, bytes = times(tensor->bytes, tensor->copies);
    for (uint32_t d = 0; d < tensor->n_dims; d++)
        parameters = times(parameters, tensor->dims[d]);
    if (of_table)
        return;
    double read = 1, computed = 1;
    if (strstr(tensor->name, ".experts.") != NULL) {
        if (count->experts == 0 || count->used == 0) {
            kind->weight_bytes = kind->flops = KVA_UNKNOWN;
            note(count, "which experts a token uses is not known, so neither are the weights that a step reads");
            return;
        }
        read = experts_read(count);
        computed = (double)count->used / (double)count->experts;
        note(count, "of the experts, those that the sequences choose are read, as if all were equally likely");
    }
    bytes = tensor->n_dims > 1 ? of_rank(bytes, tp) : bytes;
    add(&kind->weight_bytes, share(bytes, read));
    if (tensor->n_dims > 1)  // 2 operations a parameter
        add(&kind->flops, share(times(2, of_rank(parameters, tp)), computed));
}

// Do the listed tensors take what the model's weights take? A checkpoint may hold them in other types than the config
// tells; then only the whole is known.
static bool tensors_are_known(const struct kva_model *model)
{
    uint64_t listed = 0, held = 0;
    for (size_t t = 0; t < model->n_tensors; t++)
        add(&listed, times(model->tensors[t].bytes, model->tensors[t].copies));
    for (size_t c = 0; c < model->n_weight_classes; c++)
        if (strcmp(model->weight_classes[c].name, "other") != 0)  // other towers: no layer of ours
            add(&held, model->weight_classes[c].bytes);
    return model->n_tensors > 0 && model->weight_bytes != KVA_UNKNOWN && listed != KVA_UNKNOWN && listed == held;
}

static void count_weights(struct count *count)
{
    const struct kva_model *model = count->plan->model;
    bool has_head = false;
    for (size_t t = 0; t < model->n_tensors; t++)
        has_head = has_head || model->tensors[t].role == KVA_ROLE_HEAD;
    if (tensors_are_known(model)) {
        for (size_t t = 0; t < model->n_tensors; t++)
            count_tensor(count, &model->tensors[t], model->tensors[t].role == KVA_ROLE_EMBED && has_head);
        note(count, has_head ? "the embedding is looked up, a row a token, and not read whole"
                             : "the embedding is read whole, as the head that it also is");
        return;
    }
    count->as_a_whole = true;  // nobody lists the tensors, or says how large they are
    for (size_t k = 0; k < count->decode->n_kinds; k++) {
        count->decode->kinds[k].weight_bytes = k == count->outside ? 0 : KVA_UNKNOWN;
        count->decode->kinds[k].flops = KVA_UNKNOWN;
    }
    uint64_t whole = kva_weights_on_rank(model, count->plan->deployment.tp, 1);
    if (whole == KVA_UNKNOWN && count->plan->deployment.weight_bytes > 0)
        whole = count->plan->deployment.weight_bytes;
    const bool mixture = count->experts > 1 || strstr(model->model_type, "moe") != NULL;
    count->decode->weight_bytes = mixture ? KVA_UNKNOWN : whole;
    note(count, "what each tensor takes is not known, so weights are counted as a whole and products not");
}

// ---------------------------------------------------------------- caches

// Scores and weighted values: 2 operations for each of heads x (k_dim + v_dim) x rows.
static uint64_t attention_flops(const struct count *count, const struct kva_cache *cache, uint64_t rows)
{
    uint64_t values = cache->shared_kv ? cache->k_dim : cache->v_dim;
    if (cache->kind == KVA_CACHE_LATENT)  // values are the latent without its rotated part
        values = value_of(count->plan->model, "kv_lora_rank", cache->k_dim);
    return times(times(times(count->heads, cache->k_dim + values), rows), 2);
}

static enum kva_status count_state(struct count *count, const struct kva_cache *cache, struct kva_decode_kind *kind)
{
    uint64_t bytes, elements = 0;
    enum kva_status status = kva_cache_state_bytes(cache, count->plan->deployment.model_dtype, &bytes, count->error);
    if (status != KVA_OK)
        return status;
    for (size_t p = 0; p < cache->n_state; p++)
        add(&elements, cache->state[p].elements);
    add(&kind->cache_read, bytes);
    add(&kind->cache_written, bytes);
    add(&kind->flops, times(6, elements));  // decay, input and output of each: three multiply-adds
    return note(count, "a recurrent state is read and written whole, at 6 operations an element");
}

static enum kva_status count_rows(struct count *count, const struct kva_cache *cache, struct kva_decode_kind *kind)
{
    const struct kva_plan *plan = count->plan;
    uint64_t row;
    enum kva_status status = kva_cache_format_bytes(cache, plan->kv_format, &row, count->error);
    if (status != KVA_OK)
        return status;
    const uint64_t rows =
        kva_rows_on_rank(cache, kva_cache_rows(cache, plan->deployment.context), plan->deployment.dcp);
    add(&kind->cache_read, times(rows, row));
    if (cache->reads_layer < 0 && cache->kind != KVA_CACHE_CROSS)
        add(&kind->cache_written, row / kva_max(cache->ratio, 1));
    if (cache->kind != KVA_CACHE_INDEX)
        add(&kind->flops, attention_flops(count, cache, rows));
    if (cache->reads_layer >= 0)
        note(count, "a cache that several layers share is read by each of them");
    return KVA_OK;
}

static enum kva_status count_cache(struct count *count, const struct kva_cache *cache, struct kva_decode_kind *kind)
{
    const struct kva_plan *plan = count->plan;
    struct kva_cache mine = kva_cache_on_rank(cache, plan->deployment.tp);
    if (mine.kind == KVA_CACHE_NONE)
        return KVA_OK;
    if (mine.kind == KVA_CACHE_CROSS && mine.length == 0)
        mine.length = plan->deployment.encoder_context;
    if (kva_cache_is_state(&mine))
        return count_state(count, &mine, kind);
    if (mine.kind == KVA_CACHE_INDEX) {
        count->attention_unknown = true;
        note(count, "an indexer picks the keys that attention reads; all are counted, so the rate is no bound and is "
                    "left out");
    }
    return count_rows(count, &mine, kind);
}

// ---------------------------------------------------------------- kinds

// How what a kind of layer reads depends on the context.
static const char *growth(const struct kva_layer *layer, uint64_t context)
{
    bool grows = false, fills = false;
    for (size_t c = 0; c < layer->n_caches; c++) {
        const struct kva_cache *cache = &layer->caches[c];
        if (!kva_cache_has_rows(cache) || cache->kind == KVA_CACHE_CROSS)
            continue;
        if (!kva_cache_has_window(cache))
            grows = true;
        else
            fills = fills || context < cache->window;
    }
    return grows ? "with the context" : fills ? "until its window is full" : "not";
}

static enum kva_status make_kinds(struct count *count)
{
    const struct kva_plan *plan = count->plan;
    struct kva_layer_group *groups;
    size_t n_groups;
    enum kva_status status = kva_layer_groups(plan->model, plan, count->arena, &groups, &n_groups, count->error);
    if (status != KVA_OK)
        return status;
    struct kva_decode *decode = count->decode;
    decode->kinds = kva_arena_alloc(count->arena, n_groups + 1, sizeof *decode->kinds);
    count->kind_of = kva_arena_alloc(count->arena, plan->model->n_layers + 1, sizeof *count->kind_of);
    if (decode->kinds == NULL || count->kind_of == NULL)
        return kva_fail_memory(count->error, plan->model->n_layers * sizeof *count->kind_of);
    for (size_t g = 0; g < n_groups; g++) {
        decode->kinds[g] = (struct kva_decode_kind){.name = groups[g].first->kind,
                                                    .grows = growth(groups[g].first, plan->deployment.context),
                                                    .layers = groups[g].n_layers};
        for (size_t i = 0; i < groups[g].n_layers; i++)
            count->kind_of[groups[g].layers[i]] = g;
    }
    count->outside = n_groups;
    decode->kinds[n_groups] = (struct kva_decode_kind){.name = "head", .grows = "not"};
    decode->n_kinds = n_groups + 1;
    return KVA_OK;
}

static double intensity(uint64_t flops, uint64_t bytes)
{
    return flops != KVA_UNKNOWN && bytes != KVA_UNKNOWN && bytes > 0 ? (double)flops / (double)bytes : 0;
}

static uint64_t step_bytes(uint64_t weights, uint64_t read, uint64_t written, uint64_t sequences)
{
    uint64_t bytes = weights;
    add(&bytes, times(read, sequences));
    add(&bytes, times(written, sequences));
    return bytes;
}

static void sum(struct count *count)
{
    struct kva_decode *decode = count->decode;
    const uint64_t sequences = decode->sequences;
    for (size_t k = 0; k < decode->n_kinds; k++) {
        struct kva_decode_kind *kind = &decode->kinds[k];
        kind->intensity = intensity(times(kind->flops, sequences),
                                    step_bytes(kind->weight_bytes, kind->cache_read, kind->cache_written, sequences));
        if (!count->as_a_whole)
            add(&decode->weight_bytes, kind->weight_bytes);
        add(&decode->cache_read, kind->cache_read);
        add(&decode->cache_written, kind->cache_written);
        add(&decode->flops, kind->flops);
    }
    decode->step_bytes = step_bytes(decode->weight_bytes, decode->cache_read, decode->cache_written, sequences);
    decode->step_flops = times(decode->flops, sequences);
    decode->intensity = intensity(decode->step_flops, decode->step_bytes);
}

// The slower of moving and computing.
static void roofline(struct count *count)
{
    struct kva_decode *decode = count->decode;
    const struct kva_gpu *gpu = decode->gpu = count->plan->deployment.gpu_facts;
    if (gpu == NULL || count->attention_unknown)
        return;
    if (gpu->bytes_per_second > 0 && decode->step_bytes != KVA_UNKNOWN)
        decode->memory_seconds = (double)decode->step_bytes / gpu->bytes_per_second;
    if (gpu->bf16_flops > 0 && decode->step_flops != KVA_UNKNOWN)
        decode->compute_seconds = (double)decode->step_flops / gpu->bf16_flops;
    if (gpu->bytes_per_second > 0 && gpu->bf16_flops > 0)
        decode->balance = gpu->bf16_flops / gpu->bytes_per_second;
    decode->compute_bound = decode->compute_seconds > decode->memory_seconds;
    const double seconds = fmax(decode->memory_seconds, decode->compute_seconds);
    if (decode->memory_seconds > 0)
        decode->tokens_per_second = (double)decode->sequences / seconds;
    if (decode->memory_seconds > 0 && decode->compute_seconds == 0)
        note(count, "how fast the GPU computes is not known: the rate is bound by memory alone");
    if (count->plan->deployment.pp > 1)
        note(count, "the stages of a pipeline run one after another: a token takes what all of them take");
}

enum kva_status kva_decode_cost(struct kva_plan *plan, struct kva_error *error)
{
    if (plan->decode != NULL)
        return KVA_OK;
    struct kva_decode *made = kva_arena_alloc(plan->arena, 1, sizeof *made);
    if (made == NULL)
        return kva_fail_memory(error, sizeof *made);
    made->context = plan->deployment.context;
    made->sequences = plan->deployment.sequences;
    const uint64_t heads = value_of(plan->model, "heads", KVA_UNKNOWN);
    struct count count = {.plan = plan,
                          .decode = made,
                          .arena = plan->arena,
                          .heads = heads == KVA_UNKNOWN ? heads : kva_heads_ceil(heads, plan->deployment.tp),
                          .experts = value_of(plan->model, "experts", 0),
                          .used = value_of(plan->model, "experts_used", 0),
                          .error = error};
    enum kva_status status = make_kinds(&count);
    for (size_t i = 0; status == KVA_OK && i < plan->model->n_layers; i++) {
        const struct kva_layer *layer = &plan->model->layers[i];
        for (size_t c = 0; status == KVA_OK && c < layer->n_caches; c++)
            status = count_cache(&count, &layer->caches[c], &made->kinds[count.kind_of[i]]);
    }
    if (status != KVA_OK)
        return status;
    count_weights(&count);
    sum(&count);
    roofline(&count);
    plan->decode = made;
    return KVA_OK;
}
