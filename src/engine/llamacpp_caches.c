// The tensors of every cache: src/llama-kv-cache.cpp, llama-kv-cache-iswa.cpp, -dsa.cpp, -msa.cpp, -dsv4.cpp,
// llama-memory-recurrent.cpp and -hybrid.cpp.
#include <string.h>

#include "base/error.h"
#include "engine/kv_types.h"
#include "engine/llamacpp.h"

// What one layer has in a cache: elements of a cell.
struct row {
    bool has;
    uint64_t k, v;
};

struct builder {
    struct kva_call *call;
    struct kva_lcpp_memory *memory;
    struct kva_lcpp_buffer buffer;
    uint64_t largest_v;  // n_embd_v_gqa_max
};

static enum kva_status too_large(const struct builder *builder)
{
    return kva_fail(builder->call->error, KVA_BAD_INPUT, NULL, "context", "the caches are more than 2^64 bytes");
}

static bool is_flash(const struct builder *builder)
{
    return builder->call->deployment->flash_attention == KVA_ON;
}

// ---------------------------------------------------------------- one tensor

// Bytes of a tensor [elements, rows], and of the buffer that it takes: a quantized row that is no multiple of
// MATRIX_ROW_PADDING is padded once a tensor, and every tensor is aligned.
static bool tensor_bytes(const struct builder *builder, const struct kva_side_format *side, uint64_t elements,
                         uint64_t rows, uint64_t *bytes, uint64_t *given)
{
    const struct kva_lcpp_buffer *buffer = &builder->buffer;
    uint64_t row, padding = 0;
    if (!kva_side_bytes(side, elements, &row) || !kva_mul(row, rows, bytes))
        return false;
    *given = *bytes;
    if (side->group > 0 && buffer->row_padding > 0 && elements % buffer->row_padding != 0 &&
        (!kva_side_bytes(side, buffer->row_padding - elements % buffer->row_padding, &padding) ||
         !kva_add(*given, padding, given)))
        return false;
    return kva_round_up(*given, buffer->alignment, given);
}

// ggml_row_size: a row is whole blocks.
static enum kva_status check_row(const struct builder *builder, const struct kva_side_format *side, uint64_t elements,
                                 uint32_t layer)
{
    if (side->group == 0 || elements % side->group == 0)
        return KVA_OK;
    return kva_fail(builder->call->error, KVA_BAD_INPUT, NULL, "kv_type",
                    "layer %u: a row of %llu elements is not whole blocks of %u", layer, (unsigned long long)elements,
                    side->group);
}

static enum kva_status add_tensors(const struct builder *builder, struct kva_lcpp_cache *cache, uint32_t layer,
                                   const struct kva_kv_type *type, const struct row *row, uint64_t rows)
{
    struct kva_lcpp_tensors sum = {0}, *tensors = cache->tensors != NULL ? &cache->tensors[cache->n_tensors] : &sum;
    cache->n_tensors++;
    uint64_t k_given, v_given, *device = &cache->given[builder->memory->device[layer]];
    *tensors = (struct kva_lcpp_tensors){.layer = layer};
    enum kva_status status = check_row(builder, &type->k, row->k, layer);
    if (status == KVA_OK)
        status = check_row(builder, &type->v, row->v, layer);
    if (status != KVA_OK)
        return status;
    if (!tensor_bytes(builder, &type->k, row->k, rows, &tensors->k, &k_given) ||
        !tensor_bytes(builder, &type->v, row->v, rows, &tensors->v, &v_given) ||
        !kva_add(k_given, v_given, &tensors->given) || !kva_add(cache->k, tensors->k, &cache->k) ||
        !kva_add(cache->v, tensors->v, &cache->v) || !kva_add(*device, tensors->given, device))
        return too_large(builder);
    return KVA_OK;
}

// ---------------------------------------------------------------- one cache

static enum kva_status new_cache(const struct builder *builder, enum kva_lcpp_kind kind, const char *name,
                                 uint64_t cells, uint64_t streams, struct kva_lcpp_cache **cache)
{
    struct kva_lcpp_memory *memory = builder->memory;
    const size_t n_layers = memory->model.n_layers;
    *cache = &memory->caches[memory->n++];
    **cache = (struct kva_lcpp_cache){.kind = kind, .name = name, .cells = cells, .streams = streams};
    (*cache)->given = kva_arena_alloc(builder->call->arena, memory->n_devices, sizeof *(*cache)->given);
    if (!memory->sums_only)
        (*cache)->tensors = kva_arena_alloc(builder->call->arena, n_layers + 1, sizeof *(*cache)->tensors);
    return (*cache)->given != NULL && (memory->sums_only || (*cache)->tensors != NULL)
               ? KVA_OK
               : kva_fail_memory(builder->call->error, n_layers * sizeof *(*cache)->tensors);
}

static enum kva_status add_cache(const struct builder *builder, enum kva_lcpp_kind kind, const char *name,
                                 uint64_t cells, struct row (*row_of)(const struct builder *, size_t))
{
    struct kva_lcpp_cache *cache;
    uint64_t rows;
    const uint64_t streams = builder->memory->cells.streams;
    enum kva_status status = new_cache(builder, kind, name, cells, streams, &cache);
    if (status == KVA_OK && !kva_mul(cells, streams, &rows))
        return too_large(builder);
    for (size_t i = 0; i < builder->memory->model.n_layers && status == KVA_OK; i++) {
        const struct row row = row_of(builder, i);
        if (row.has)
            status = add_tensors(builder, cache, (uint32_t)i, &builder->call->kv_format, &row, rows);
    }
    return status;
}

// Without flash attention V is transposed, and every layer's is as wide as the widest.
static struct row attention_row(const struct builder *builder, size_t i)
{
    const struct kva_lcpp_model *model = &builder->memory->model;
    const struct kva_lcpp_layer *layer = &model->layers[i];
    // a model without recurrent layers counts layers without heads too: tensors of no bytes
    const bool has = model->recurrent ? layer->owns : layer->owns || !layer->attends;
    return (struct row){has, layer->k, is_flash(builder) ? layer->v : builder->largest_v};
}

static struct row full_row(const struct builder *builder, size_t i)
{
    struct row row = attention_row(builder, i);
    row.has = row.has && !builder->memory->model.layers[i].windowed;
    return row;
}

static struct row windowed_row(const struct builder *builder, size_t i)
{
    struct row row = attention_row(builder, i);
    row.has = row.has && builder->memory->model.layers[i].windowed;
    return row;
}

static struct row index_row(const struct builder *builder, size_t i)
{
    const struct kva_lcpp_layer *layer = &builder->memory->model.layers[i];
    return (struct row){layer->index_k > 0, layer->index_k, layer->index_v};
}

static struct row ratio_row(const struct builder *builder, size_t i, uint32_t ratio)
{
    const struct kva_lcpp_layer *layer = &builder->memory->model.layers[i];
    return (struct row){layer->ratio == ratio, layer->k_head, 0};
}

enum { CSA = 4, HCA = 128 };  // tokens of one compressed row

static struct row csa_row(const struct builder *builder, size_t i)
{
    return ratio_row(builder, i, CSA);
}

static struct row hca_row(const struct builder *builder, size_t i)
{
    return ratio_row(builder, i, HCA);
}

// ---------------------------------------------------------------- states, always in f32

static const struct kva_kv_type F32 = {.k = {.bits = 32}, .v = {.bits = 32}};

static enum kva_status add_state(const struct builder *builder)
{
    const struct kva_lcpp_model *model = &builder->memory->model;
    const struct kva_deployment *deployment = builder->call->deployment;
    struct kva_lcpp_cache *cache;
    uint64_t rows;
    const uint64_t sequences = builder->memory->n_seq_max;
    if (!kva_add(deployment->rs_seq, 1, &rows) || !kva_mul(sequences, rows, &rows))
        return too_large(builder);
    enum kva_status status = new_cache(builder, KVA_LCPP_STATE, "recurrent", sequences, 1, &cache);
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++) {
        const struct row row = {true, model->layers[i].r, model->layers[i].s};
        if (row.k > 0 || row.v > 0)
            status = add_tensors(builder, cache, (uint32_t)i, &F32, &row, rows);
    }
    return status;
}

// The state that fills a compressed cache: what it adds up (kv) and its weights (score), a row of each for every token
// that is not yet compressed.
static enum kva_status add_compressor(const struct builder *builder, const char *name, uint64_t ratio, uint64_t states,
                                      uint64_t width, struct row (*row_of)(const struct builder *, size_t))
{
    const struct kva_deployment *deployment = builder->call->deployment;
    struct kva_lcpp_cache *cache;
    uint64_t rows;
    const uint64_t sequences = builder->memory->n_seq_max;
    if (!kva_add(deployment->rs_seq, 1, &rows) || !kva_mul3(states, sequences, rows, &rows))
        return too_large(builder);
    enum kva_status status = new_cache(builder, KVA_LCPP_COMPRESSOR, name, states, sequences, &cache);
    if (status != KVA_OK)
        return status;
    cache->ratio = ratio;
    cache->width = width;
    for (size_t i = 0; i < builder->memory->model.n_layers && status == KVA_OK; i++) {
        const struct row row = {true, width, width};
        if (row_of(builder, i).has)
            status = add_tensors(builder, cache, (uint32_t)i, &F32, &row, rows);
    }
    return status;
}

// ---------------------------------------------------------------- DeepSeek-V4

static uint64_t widest(const struct builder *builder, struct row (*row_of)(const struct builder *, size_t))
{
    uint64_t width = 0;
    for (size_t i = 0; i < builder->memory->model.n_layers; i++)
        width = kva_max(width, row_of(builder, i).has ? row_of(builder, i).k : 0);
    return width;
}

static bool compressed_cells(uint64_t tokens, uint64_t ratio, uint64_t *cells)
{
    enum { UNIT = 256 };
    return kva_round_up(tokens / ratio + (tokens % ratio != 0), UNIT, cells);
}

// llama_kv_cache_dsv4: the window of every layer, two compressed caches, an indexer's, and the states that fill them.
static enum kva_status add_compressed(const struct builder *builder)
{
    const struct kva_lcpp_cells *cells = &builder->memory->cells;
    uint64_t csa, hca;
    if (!compressed_cells(cells->base, CSA, &csa) || !compressed_cells(cells->base, HCA, &hca))
        return too_large(builder);
    enum kva_status status = add_cache(builder, KVA_LCPP_COMPRESSED, "csa", csa, csa_row);
    if (status == KVA_OK)
        status = add_cache(builder, KVA_LCPP_COMPRESSED, "hca", hca, hca_row);
    if (status == KVA_OK)
        status = add_cache(builder, KVA_LCPP_COMPRESSED, "lid", csa, index_row);
    if (status == KVA_OK)
        status = add_compressor(builder, "csa", CSA, 2 * CSA, 2 * widest(builder, csa_row), csa_row);
    if (status == KVA_OK)
        status = add_compressor(builder, "hca", HCA, HCA, widest(builder, hca_row), hca_row);
    if (status == KVA_OK)
        status = add_compressor(builder, "lid", CSA, 2 * CSA, 2 * widest(builder, index_row), index_row);
    return status;
}

// ---------------------------------------------------------------- all of them

static enum kva_status add_attention(const struct builder *builder)
{
    const struct kva_lcpp_model *model = &builder->memory->model;
    const struct kva_lcpp_cells *cells = &builder->memory->cells;
    bool indexed = false;
    for (size_t i = 0; i < model->n_layers; i++)
        indexed = indexed || model->layers[i].index_k > 0;
    if (model->windowed_cache) {
        enum kva_status status = add_cache(builder, KVA_LCPP_FULL, "non-SWA", cells->base, full_row);
        if (status == KVA_OK)
            status = add_cache(builder, KVA_LCPP_WINDOW, "SWA", cells->window, windowed_row);
        return status == KVA_OK && model->compressed ? add_compressed(builder) : status;
    }
    enum kva_status status =
        add_cache(builder, indexed ? KVA_LCPP_MAIN : KVA_LCPP_KV, indexed ? "main" : "KV", cells->base, attention_row);
    return status == KVA_OK && indexed ? add_cache(builder, KVA_LCPP_INDEXER, "indexer", cells->base, index_row)
                                       : status;
}

enum kva_status kva_lcpp_memory_fill(struct kva_call *call, struct kva_lcpp_memory *memory, uint64_t n_ctx,
                                     uint64_t n_seq_max)
{
    struct builder builder = {.call = call, .memory = memory, .buffer = kva_lcpp_buffer_of(call)};
    const struct kva_lcpp_model *model = &memory->model;
    memory->n = 0;
    memory->n_seq_max = n_seq_max;
    for (size_t i = 0; i < model->n_layers; i++)
        builder.largest_v = kva_max(builder.largest_v, model->layers[i].v);
    enum kva_status status = kva_lcpp_cells(call, model, n_ctx, n_seq_max, &memory->cells);
    if (status == KVA_OK && (model->attention || !model->recurrent))
        status = add_attention(&builder);
    return status == KVA_OK && model->recurrent ? add_state(&builder) : status;
}

enum kva_status kva_lcpp_memory_open(struct kva_call *call, struct kva_lcpp_memory **memory)
{
    *memory = kva_arena_alloc(call->arena, 1, sizeof **memory);
    call->own = *memory;
    return *memory != NULL ? kva_lcpp_model_read(call, &(*memory)->model)
                           : kva_fail_memory(call->error, sizeof **memory);
}

enum kva_status kva_lcpp_memory_spread(struct kva_call *call, struct kva_lcpp_memory *memory)
{
    memory->n_devices = call->deployment->offload_kqv == KVA_OFF ? 1 : call->deployment->pp;
    return kva_lcpp_devices(call, &memory->device);
}
