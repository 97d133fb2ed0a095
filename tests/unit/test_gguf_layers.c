// The layers of a GGUF header are those that llama.cpp itself counted. llamacpp-layers.jsonl holds, for each of 67
// models, the keys of its header and what a prebuilt llama.cpp release logged when it made the caches: cells, layers,
// MiB, and the exact bytes. The cells are the engine's; how many layers lie in which pool, how wide their rows are and
// how large a state is, the model's. (Made from the recorded runs by tools/llamacpp_layers.py.)
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "gguf_meta.h"
#include "jsonl.h"
#include "model/arch.h"
#include "unit.h"

// Bytes of a row of `elements`, as ggml has them.
static uint64_t row_bytes(const char *type, uint64_t elements)
{
    return strcmp(type, "q8_0") == 0   ? elements / 32 * 34
           : strcmp(type, "q4_0") == 0 ? elements / 32 * 18
           : strcmp(type, "f32") == 0  ? elements * 4
                                       : elements * 2;
}

struct counted {
    size_t layers;
    uint64_t k, v;  // bytes of one row of every layer
};

// What of the model lies in one of llama.cpp's pools. expanded: the heads of a latent, as llama.cpp caches them.
static struct counted count_pool(const struct kva_model *model, const char *pool, const char *type, const char *engine)
{
    struct counted counted = {0};
    bool all = strcmp(engine, "ignores the window") == 0, expands = strcmp(engine, "expands the latent") == 0;
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            bool windowed = cache->kind == KVA_CACHE_SLIDING || cache->kind == KVA_CACHE_CHUNKED;
            bool compressed = cache->ratio > 1;
            bool in = strcmp(pool, "base") == 0
                          ? (windowed && all) ||
                                (!compressed && (cache->kind == KVA_CACHE_FULL || cache->kind == KVA_CACHE_LATENT))
                      : strcmp(pool, "swa") == 0   ? windowed
                      : strcmp(pool, "index") == 0 ? cache->kind == KVA_CACHE_INDEX
                      : strcmp(pool, "csa") == 0   ? cache->kind != KVA_CACHE_INDEX && cache->ratio == 4
                      : strcmp(pool, "hca") == 0   ? cache->kind != KVA_CACHE_INDEX && cache->ratio == 128
                                                   : cache->kind == KVA_CACHE_INDEX && cache->ratio == 4;
            if (!in || cache->reads_layer >= 0)
                continue;
            counted.layers++;
            if (expands) {
                uint64_t heads = kva_model_value(model, "heads")->count;
                counted.k += row_bytes(type, heads * 192);
                counted.v += row_bytes(type, heads * kva_model_value(model, "v_head_dim")->count);
            } else if (cache->kind == KVA_CACHE_LATENT)
                counted.k += row_bytes(type, cache->k_dim + cache->v_dim);
            else {
                counted.k += row_bytes(type, (uint64_t)cache->kv_heads * cache->k_dim);
                counted.v += row_bytes(type, (uint64_t)cache->kv_heads * cache->v_dim);
            }
        }
    return counted;
}

// llama.cpp prints (float)bytes / 1024 / 1024 with two digits.
static void prints(const char *model, const char *what, uint64_t bytes, const json_t *expected)
{
    char text[64];
    snprintf(text, sizeof text, "%.2f", (double)((float)bytes / 1048576.0f));
    ck_assert_msg(strcmp(text, json_string_value(expected)) == 0, "%s: %s is %s MiB, llama.cpp printed %s", model, what,
                  text, json_string_value(expected));
}

static uint64_t check_state(const struct kva_model *model, const char *name, const json_t *pool)
{
    uint64_t conv = 0, recurrent = 0, rows = (uint64_t)json_integer_value(json_object_get(pool, "rows"));
    for (size_t i = 0; i < model->n_layers; i++)
        for (size_t c = 0; c < model->layers[i].n_caches; c++) {
            const struct kva_cache *cache = &model->layers[i].caches[c];
            for (size_t s = 0; s < cache->n_state; s++) {
                bool moves = strcmp(cache->state[s].name, "recurrent") == 0;
                *(moves ? &recurrent : &conv) += cache->state[s].elements * 4;  // always f32
            }
        }
    prints(name, "R", conv * rows, json_object_get(pool, "R"));
    prints(name, "S", recurrent * rows, json_object_get(pool, "S"));
    ck_assert_int_eq(json_integer_value(json_object_get(pool, "layers")), (json_int_t)model->n_layers);
    return (conv + recurrent) * rows;
}

static uint64_t check_pool(const struct kva_model *model, const char *name, const json_t *pool, const char *engine)
{
    const char *which = json_string_value(json_object_get(pool, "pool"));
    if (strcmp(which, "state") == 0)
        return check_state(model, name, pool);
    const char *type = json_string_value(json_object_get(pool, "type_k"));
    uint64_t cells = (uint64_t)(json_integer_value(json_object_get(pool, "cells")) *
                                json_integer_value(json_object_get(pool, "streams")));
    struct counted counted = count_pool(model, which, type, engine);
    size_t layers = (size_t)json_integer_value(json_object_get(pool, "layers"));
    if (strcmp(model->arch->model_type, "nemotron-nas") == 0)
        counted.layers = model->n_layers;  // llama.cpp counts layers without heads too
    ck_assert_msg(counted.layers == layers, "%s: %zu layers in %s, llama.cpp counted %zu", name, counted.layers, which,
                  layers);
    prints(name, "K", counted.k * cells, json_object_get(pool, "K"));
    // MiniMax-M3's index has values in llama.cpp, which the model has not: an engine's affair
    if (strcmp(which, "index") != 0)
        prints(name, "V", counted.v * cells, json_object_get(pool, "V"));
    return (counted.k + counted.v) * cells;
}

START_TEST(layers_are_those_that_llamacpp_counted)
{
    struct kva_atlas *atlas;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    char path[64] = "/tmp/kva-gguf-XXXXXX";
    int handle = mkstemp(path);
    ck_assert_int_ge(handle, 0);
    close(handle);
    FILE *file = jsonl_open(TEST_DATA "/llamacpp-layers.jsonl");
    size_t checked = 0;
    for (json_t *record; (record = jsonl_next(file)) != NULL; json_decref(record)) {
        json_t *meta = json_object_get(record, "meta");
        const char *name = json_string_value(json_object_get(record, "model"));
        const char *engine = json_string_value(json_object_get(record, "engine"));
        const char *architecture = json_string_value(json_object_get(meta, "general.architecture"));
        save_meta(meta, path);
        struct kva_error error = {0};
        struct kva_model *model;
        char text[1024];
        enum kva_status status = kva_model_open(atlas, path, NULL, &model, &error);
        ck_assert_msg(status == KVA_OK, "%s: %s", name, kva_error_line(&error, text, sizeof text));
        const json_t *pools = json_object_get(record, "pools");
        uint64_t bytes = 0;
        for (size_t p = 0; p < json_array_size(pools); p++)
            bytes += check_pool(model, name, json_array_get(pools, p), engine != NULL ? engine : "");
        const json_t *exact = json_object_get(record, "bytes");
        if (exact != NULL && strcmp(architecture, "deepseek4") != 0 && strcmp(architecture, "minimax-m3") != 0)
            ck_assert_msg((json_int_t)bytes == json_integer_value(exact), "%s: %llu bytes, llama.cpp gave %lld", name,
                          (unsigned long long)bytes, (long long)json_integer_value(exact));
        checked++;
        kva_model_close(model);
    }
    fclose(file);
    unlink(path);
    kva_atlas_close(atlas);
    ck_assert_uint_eq(checked, 67);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf layers");
    TCase *tests = tcase_create("gguf layers");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, layers_are_those_that_llamacpp_counted);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
