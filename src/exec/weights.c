#include "exec/weights.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/checked.h"
#include "base/error.h"
#include "model/safetensors.h"

enum { ALIGNMENT = 256, STAGING_BYTES = 16 << 20 };

struct loader {
    const struct kva_model *model;
    const struct kva_run_options *options;
    struct kva_ledger *ledger;
    struct kva_safetensors *checkpoint;  // NULL: random
    unsigned char *staging;              // [STAGING_BYTES]
    struct kva_error *error;
};

static float half_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, fraction = bits & 1023;
    float value;
    if (exponent == 0)
        value = ldexpf((float)fraction, -24);
    else if (exponent == 31)
        value = fraction == 0 ? INFINITY : NAN;
    else
        value = ldexpf((float)(fraction | 1024), (int)exponent - 25);
    return sign != 0 ? -value : value;
}

static float element(enum kva_dtype dtype, const unsigned char *data, uint64_t index)
{
    uint16_t narrow;
    float value;
    if (dtype == KVA_F32) {
        memcpy(&value, data + index * 4, 4);
        return value;
    }
    memcpy(&narrow, data + index * 2, 2);
    return dtype == KVA_F16 ? half_to_f32(narrow) : kva_bf16_to_f32(narrow);
}

static enum kva_status upload(const struct loader *loader, void *to, const void *from, uint64_t bytes)
{
    return loader->ledger->kernels->upload(loader->ledger->device, to, from, bytes, loader->error);
}

// Copies a checkpoint's tensor to the device in the run's dtype, a staging buffer at a time.
static enum kva_status transfer(const struct loader *loader, const struct kva_st_tensor *from, enum kva_dtype dtype,
                                void *to, uint64_t elements)
{
    if (from->dtype == dtype)
        return upload(loader, to, from->data, from->bytes);
    const uint64_t size = kva_dtype_bytes(dtype), step = STAGING_BYTES / size;
    for (uint64_t done = 0; done < elements; done += step) {
        const uint64_t n = kva_min(step, elements - done);
        for (uint64_t i = 0; i < n; i++) {
            const float value = element(from->dtype, from->data, done + i);
            const uint16_t narrow = kva_f32_to_bf16(value);
            memcpy(loader->staging + i * size, dtype == KVA_F32 ? (const void *)&value : (const void *)&narrow, size);
        }
        const enum kva_status status = upload(loader, (unsigned char *)to + done * size, loader->staging, n * size);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static void print_shape(char *text, size_t size, const uint64_t *dims, uint32_t n)
{
    size_t used = (size_t)snprintf(text, size, "[");
    for (uint32_t i = 0; i < n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%" PRIu64, i > 0 ? ", " : "", dims[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static enum kva_status check_tensor(const struct loader *loader, const struct kva_tensor *expected,
                                    const struct kva_st_tensor *found)
{
    bool same = found->n_dims == expected->n_dims;
    for (uint32_t i = 0; same && i < found->n_dims; i++)
        same = found->dims[i] == expected->dims[i];
    if (!same) {
        char has[96], wants[96];
        print_shape(has, sizeof has, found->dims, found->n_dims);
        print_shape(wants, sizeof wants, expected->dims, expected->n_dims);
        return kva_fail(loader->error, KVA_BAD_INPUT, found->file, found->name,
                        "has shape %s, %s implies %s: the checkpoint and the config do not belong together", has,
                        loader->model->source, wants);
    }
    if (found->dtype != KVA_F32 && found->dtype != KVA_BF16 && found->dtype != KVA_F16)
        return kva_fail(loader->error, KVA_BAD_INPUT, found->file, found->name,
                        "is of type %s: the executor runs f32, f16 and bf16 checkpoints", kva_dtype_name(found->dtype));
    return KVA_OK;
}

// Random weights that keep a decoder's numbers in range: variance 1 / fan-in for products, near 1 for norms, and the
// state-space parameters where Mamba's own initialisation puts them (https://arxiv.org/abs/2312.00752, section 3.6).
static struct kva_fill_args initial(const struct loader *loader, const struct kva_tensor *tensor)
{
    struct kva_fill_args fill = {.fill = KVA_FILL_UNIFORM, .period = 1};
    uint64_t fan_in = 1;
    for (uint32_t i = 1; i < tensor->n_dims; i++)
        fan_in *= tensor->dims[i];
    fill.scale = sqrtf(3 / (float)fan_in);
    const float unit_offset = loader->model->arch->decoder->norm_unit_offset ? 1 : 0;
    switch (tensor->role) {
    case KVA_ROLE_EMBED:
        fill.scale = 0.04f;
        break;
    case KVA_ROLE_FINAL_NORM:
    case KVA_ROLE_MIXER_NORM:
    case KVA_ROLE_MIXER_POST_NORM:
    case KVA_ROLE_FFN_NORM:
    case KVA_ROLE_FFN_POST_NORM:
    case KVA_ROLE_Q_NORM:
    case KVA_ROLE_K_NORM:
        fill.mean = 1 - unit_offset;
        fill.scale = 0.1f;
        break;
    case KVA_ROLE_SUB_NORM:
    case KVA_ROLE_SSM_D:
        fill.mean = 1;
        fill.scale = 0.1f;
        break;
    case KVA_ROLE_SSM_A_LOG:
        fill.fill = KVA_FILL_A_LOG;
        fill.period = tensor->dims[tensor->n_dims - 1];
        break;
    case KVA_ROLE_SSM_DT_BIAS:
        fill.mean = -4;
        fill.scale = 2;
        break;
    case KVA_ROLE_LAMBDA_Q1:
    case KVA_ROLE_LAMBDA_K1:
    case KVA_ROLE_LAMBDA_Q2:
    case KVA_ROLE_LAMBDA_K2:
        fill.scale = 0.1f;
        break;
    default:
        if (tensor->n_dims == 1)
            fill.scale = 0.02f;
    }
    return fill;
}

static enum kva_status fill_random(const struct loader *loader, const struct kva_tensor *tensor, size_t index, void *to,
                                   uint64_t elements)
{
    struct kva_fill_args fill = initial(loader, tensor);
    fill.y = to;
    fill.dtype = tensor->dtype;
    fill.elements = elements;
    fill.seed = loader->options->seed * UINT64_C(1000003) + index;
    return loader->ledger->kernels->fill(loader->ledger->device, &fill, loader->error);
}

static struct kva_weight *slot(struct kva_weights *weights, const struct kva_tensor *tensor)
{
    return tensor->layer < 0 ? &weights->global[tensor->role] : &weights->layers[tensor->layer][tensor->role];
}

// Where a tensor will lie, and its shape: the checkpoint's own when there is one, since caches are sized by it.
static enum kva_status place_one(const struct loader *loader, struct kva_weights *weights,
                                 const struct kva_tensor *tensor, unsigned char *memory)
{
    struct kva_weight *weight = slot(weights, tensor);
    *weight = (struct kva_weight){.data = memory, .dtype = tensor->dtype, .n_dims = tensor->n_dims};
    memcpy(weight->dims, tensor->dims, sizeof weight->dims);
    if (loader->checkpoint == NULL)
        return KVA_OK;
    const struct kva_st_tensor *found = kva_safetensors_find(loader->checkpoint, tensor->name);
    if (found == NULL)
        return kva_fail(loader->error, KVA_BAD_INPUT, loader->options->weights, tensor->name,
                        "is not in the checkpoint");
    const enum kva_status status = check_tensor(loader, tensor, found);
    for (uint32_t d = 0; status == KVA_OK && d < found->n_dims; d++)
        weight->dims[d] = found->dims[d];
    return status;
}

static enum kva_status fill_one(const struct loader *loader, struct kva_weights *weights, size_t index)
{
    const struct kva_tensor *tensor = &loader->model->tensors[index];
    const struct kva_weight *weight = slot(weights, tensor);
    uint64_t elements = 1;
    for (uint32_t d = 0; d < weight->n_dims; d++)
        elements *= weight->dims[d];
    if (loader->checkpoint == NULL)
        return fill_random(loader, tensor, index, weight->data, elements);
    return transfer(loader, kva_safetensors_find(loader->checkpoint, tensor->name), tensor->dtype, weight->data,
                    elements);
}

static bool is_listed(const struct kva_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_tensors; i++)
        if (strcmp(model->tensors[i].name, name) == 0)
            return true;
    return false;
}

// A tensor of a layer that runs, which the architecture does not know, would make another model than the one that is
// computed: a bias that is left out changes every logit. (inv_freq is a table that old checkpoints store beside.)
static enum kva_status refuse_strangers(const struct loader *loader)
{
    const struct kva_model *model = loader->model;
    char prefix[256], number[24];
    size_t first = 0;
    while (first < model->n_tensors && model->tensors[first].layer < 0)
        first++;
    if (first == model->n_tensors)
        return KVA_OK;
    snprintf(number, sizeof number, ".%" PRId32 ".", model->tensors[first].layer);
    const char *at = strstr(model->tensors[first].name, number);
    const int length = at != NULL ? (int)(at - model->tensors[first].name) + 1 : 0;
    snprintf(prefix, sizeof prefix, "%.*s", length, model->tensors[first].name);
    for (size_t i = 0; length > 0 && i < kva_safetensors_count(loader->checkpoint); i++) {
        const struct kva_st_tensor *tensor = kva_safetensors_at(loader->checkpoint, i);
        if (strncmp(tensor->name, prefix, (size_t)length) != 0 || strstr(tensor->name, "rotary_emb.inv_freq") != NULL ||
            strtoull(tensor->name + length, NULL, 10) >= model->n_layers || is_listed(model, tensor->name))
            continue;
        return kva_fail(loader->error, KVA_BAD_INPUT, tensor->file, tensor->name,
                        "is in the checkpoint, but a %s decoder as %s describes it has no such tensor",
                        model->arch->model_type, model->source);
    }
    return KVA_OK;
}

enum kva_status kva_weights_place(const struct kva_model *model, const struct kva_run_options *options,
                                  struct kva_ledger *ledger, struct kva_weights *weights, struct kva_error *error)
{
    struct loader loader = {.model = model, .options = options, .ledger = ledger, .error = error};
    enum kva_status status = KVA_OK;
    uint64_t total = 0, room;
    for (size_t i = 0; i < model->n_tensors; i++)
        if (!kva_round_up(model->tensors[i].bytes, ALIGNMENT, &room) || !kva_add(total, room, &total))
            return kva_fail(error, KVA_BAD_INPUT, model->source, model->tensors[i].name, "is too large");
    weights->n_layers = model->n_layers;
    weights->layers = calloc(model->n_layers, sizeof *weights->layers);
    if (weights->layers == NULL)
        return kva_fail_memory(error, model->n_layers * sizeof *weights->layers);
    if (strcmp(options->weights, "random") != 0) {
        status = kva_safetensors_open(options->weights, false, &weights->checkpoint, error);
        loader.checkpoint = weights->checkpoint;
        if (status == KVA_OK)
            status = refuse_strangers(&loader);
    }
    void *memory = NULL;
    if (status == KVA_OK)
        status = kva_ledger_alloc(ledger, -1, KVA_WEIGHTS, total, &memory, error);
    uint64_t offset = 0;
    for (size_t i = 0; i < model->n_tensors && status == KVA_OK; i++) {
        status = place_one(&loader, weights, &model->tensors[i], (unsigned char *)memory + offset);
        if (kva_round_up(model->tensors[i].bytes, ALIGNMENT, &room))
            offset += room;
    }
    return status;
}

enum kva_status kva_weights_fill(const struct kva_model *model, const struct kva_run_options *options,
                                 struct kva_ledger *ledger, struct kva_weights *weights, struct kva_error *error)
{
    struct loader loader = {.model = model, .options = options, .ledger = ledger, .error = error};
    enum kva_status status = KVA_OK;
    loader.checkpoint = weights->checkpoint;
    loader.staging = malloc(STAGING_BYTES);
    if (loader.staging == NULL)
        return kva_fail_memory(error, STAGING_BYTES);
    for (size_t i = 0; i < model->n_tensors && status == KVA_OK; i++) {
        status = fill_one(&loader, weights, i);
        if (options->progress != NULL && status == KVA_OK)
            options->progress(options->user, "weights", i + 1, model->n_tensors);
    }
    if (status == KVA_OK)
        status = ledger->kernels->sync(ledger->device, error);
    free(loader.staging);
    kva_safetensors_close(weights->checkpoint);
    weights->checkpoint = NULL;
    return status;
}

void kva_weights_release(struct kva_weights *weights)
{
    kva_safetensors_close(weights->checkpoint);
    weights->checkpoint = NULL;
    free(weights->layers);
    weights->layers = NULL;
}
