// Weight bytes: from a checkpoint beside the config where there is one, else from the expected tensors. Where the
// config says that the weights are quantized, data/quantization.yaml tells what that means, or nobody does.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/build.h"
#include "model/gguf_arch.h"
#include "model/quantization.h"
#include "model/safetensors.h"

static void forget_bytes(struct kva_model *model)
{
    model->weight_bytes = KVA_UNKNOWN;
    for (size_t i = 0; i < model->n_weight_classes; i++)
        model->weight_classes[i].bytes = KVA_UNKNOWN;
}

static bool is_float(enum kva_dtype dtype)
{
    return dtype == KVA_F32 || dtype == KVA_F16 || dtype == KVA_BF16 || dtype == KVA_F64;
}

// A config without a dtype means the dtype of the checkpoint's first float tensor. (Transformers, modeling_utils.py.)
static void adopt_dtype(struct kva_model *model, const struct kva_safetensors *checkpoint)
{
    for (size_t i = 0; i < kva_safetensors_count(checkpoint) && model->dtype == KVA_DTYPE_NONE; i++) {
        const struct kva_st_tensor *tensor = kva_safetensors_at(checkpoint, i);
        if (is_float(tensor->dtype)) {
            model->dtype = tensor->dtype;
            model->dtype_key = "safetensors headers";
        }
    }
}

static bool same_shape(const struct kva_tensor *expected, const struct kva_st_tensor *found)
{
    if (expected->n_dims != found->n_dims)
        return false;
    for (uint32_t d = 0; d < expected->n_dims; d++)
        if (expected->dims[d] != found->dims[d])
            return false;
    return true;
}

static uint64_t elements_of(const struct kva_st_tensor *tensor)
{
    return kva_dtype_bytes(tensor->dtype) > 0 ? tensor->bytes / kva_dtype_bytes(tensor->dtype) : 0;
}

// The tensor of that name, with the number of the copy in place of {e}.
static const struct kva_st_tensor *find_copy(const struct kva_safetensors *checkpoint,
                                             const struct kva_tensor *expected, uint64_t copy)
{
    char name[512];
    const char *brace = strstr(expected->name, "{e}");
    if (brace == NULL)
        return kva_safetensors_find(checkpoint, expected->name);
    const int length = snprintf(name, sizeof name, "%.*s%llu%s", (int)(brace - expected->name), expected->name,
                                (unsigned long long)copy, brace + strlen("{e}"));
    return length > 0 && (size_t)length < sizeof name ? kva_safetensors_find(checkpoint, name) : NULL;
}

// What the checkpoint says against what was expected, for the warnings.
struct comparison {
    size_t matched, missing;
    const char *first_missing, *first_different;
};

static enum kva_status count_classes(struct kva_build *build, const struct kva_safetensors *checkpoint,
                                     struct comparison *seen)
{
    struct kva_model *model = build->model;
    uint64_t bytes = 0, parameters = 0;
    size_t n = kva_safetensors_count(checkpoint);
    model->n_weight_classes = 0;
    for (size_t i = 0; i < model->n_tensors; i++) {
        const struct kva_tensor *expected = &model->tensors[i];
        for (uint64_t copy = 0; copy < expected->copies; copy++) {
            const struct kva_st_tensor *found = find_copy(checkpoint, expected, copy);
            if (found == NULL) {
                if (seen->missing++ == 0)
                    seen->first_missing = expected->name;
                continue;
            }
            if (!same_shape(expected, found) && seen->first_different == NULL)
                seen->first_different = expected->name;
            seen->matched++;
            bytes += found->bytes;  // sums of parts of the file: no more than its length
            parameters += elements_of(found);
            enum kva_status status = kva_class_add(build, build->classes[i], 1, elements_of(found), found->bytes);
            if (status != KVA_OK)
                return status;
        }
    }
    uint64_t all = 0, all_parameters = 0;
    for (size_t i = 0; i < n; i++) {
        const struct kva_st_tensor *tensor = kva_safetensors_at(checkpoint, i);
        all += tensor->bytes;
        all_parameters += elements_of(tensor);
    }
    model->weight_bytes = all;
    model->weight_source = "safetensors headers";
    if (n == seen->matched)
        return KVA_OK;
    return kva_class_add(build, "other", n - seen->matched, all_parameters - parameters, all - bytes);
}

static enum kva_status from_headers(struct kva_build *build, const struct kva_safetensors *checkpoint)
{
    struct comparison seen = {0};
    enum kva_status status = count_classes(build, checkpoint, &seen);
    if (status == KVA_OK && seen.missing > 0)
        status = kva_build_warn(build, "%zu of the %zu expected tensors are not in the checkpoint, the first is %.80s",
                                seen.missing, build->model->n_tensors, seen.first_missing);
    if (status == KVA_OK && seen.first_different != NULL)
        status = kva_build_warn(build, "the checkpoint's %.80s has another shape than the config gives it",
                                seen.first_different);
    return status;
}

static enum kva_status warn_of_quantization(struct kva_build *build, const json_t *quantization)
{
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    return kva_build_warn(
        build,
        "weight bytes are unknown: what the weights quantized as %.40s take is not known; a directory with the "
        "checkpoint tells, or --weight-bytes",
        method != NULL ? method : "quantization_config");
}

// kv_cache_scheme of compressed-tensors and of ModelOpt: eight bits of a float; kv_cache_quant_algo: a name.
static const char *cache_scales(const json_t *quantization)
{
    const json_t *scheme = json_object_get(quantization, "kv_cache_scheme");
    if (json_is_object(scheme)) {
        const char *type = json_string_value(json_object_get(scheme, "type"));
        return json_integer_value(json_object_get(scheme, "num_bits")) == 8 && type != NULL &&
                       strcmp(type, "float") == 0
                   ? "fp8"
                   : NULL;
    }
    const char *name = json_string_value(scheme);
    if (name == NULL)
        name = json_string_value(json_object_get(quantization, "kv_cache_quant_algo"));
    if (name == NULL)
        return NULL;
    return strcasecmp(name, "fp8") == 0 ? "fp8" : strcasecmp(name, "nvfp4") == 0 ? "nvfp4" : NULL;
}

static enum kva_status read_quantization_names(struct kva_model *model, const json_t *quantization,
                                               struct kva_error *error)
{
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    model->kv_scales = cache_scales(quantization);
    model->quant_method = method != NULL ? kva_arena_strdup(model->arena, method) : NULL;
    return method == NULL || model->quant_method != NULL ? KVA_OK : kva_fail_memory(error, strlen(method) + 1);
}

// The bytes of what kva_tensors_expand listed: from the checkpoint where there is one, else as the config says.
static enum kva_status settle_bytes(struct kva_build *build, const struct kva_safetensors *checkpoint,
                                    const json_t *quantization, bool by_config)
{
    struct kva_model *model = build->model;
    if (checkpoint != NULL && kva_safetensors_complete(checkpoint))
        return from_headers(build, checkpoint);
    if (checkpoint != NULL && kva_safetensors_index_bytes(checkpoint) > 0) {
        if (quantization != NULL)
            forget_bytes(model);
        model->weight_bytes = kva_safetensors_index_bytes(checkpoint);
        model->weight_source = "safetensors index";
        return KVA_OK;
    }
    if (by_config && build->quantization == NULL) {
        forget_bytes(model);
        return warn_of_quantization(build, quantization);
    }
    if (by_config) {
        const char *words = kva_quantization_words(build, build->quantization);
        model->weight_source = words != NULL ? words : "";
        return words != NULL ? KVA_OK : kva_build_memory(build);
    }
    return model->dtype == KVA_DTYPE_NONE ? kva_build_warn(build, "weight bytes are unknown: the config has no dtype")
                                          : KVA_OK;
}

// The text decoder of a model with other towers, of which only the config was read.
static enum kva_status warn_of_towers(struct kva_build *build)
{
    if (build->wrapper == NULL || strncmp(build->model->weight_source, "config", strlen("config")) != 0)
        return KVA_OK;
    return kva_build_warn(build, "the weights are those of the text decoder%s%s%s; other towers are not counted",
                          build->text_key != NULL ? " (" : "", build->text_key != NULL ? build->text_key : "",
                          build->text_key != NULL ? ")" : "");
}

enum kva_status kva_weights_read(struct kva_build *build)
{
    struct kva_model *model = build->model;
    if (build->gguf != NULL)
        return kva_gguf_weights(build);
    const json_t *quantization = json_object_get(build->root, "quantization_config");
    if (quantization == NULL)
        quantization = json_object_get(build->text, "quantization_config");
    if (json_is_null(quantization))
        quantization = NULL;
    enum kva_status status = read_quantization_names(model, quantization, build->error);
    // another dtype or fewer layers than the checkpoint has: its bytes are not the model's
    const bool as_published =
        build->options.dtype == KVA_DTYPE_NONE && model->n_layers == kva_model_value(model, "layers")->count;
    struct kva_safetensors *checkpoint = NULL;
    if (status == KVA_OK && build->directory != NULL && as_published && kva_safetensors_present(build->directory))
        status = kva_safetensors_open(build->directory, true, &checkpoint, build->error);
    if (status == KVA_OK && checkpoint != NULL)
        adopt_dtype(model, checkpoint);
    const bool by_config = quantization != NULL && build->options.dtype == KVA_DTYPE_NONE;
    if (status == KVA_OK && by_config)
        status = kva_quantization_read(build, quantization, &build->quantization);
    if (status == KVA_OK)
        status = kva_tensors_expand(build);
    kva_quantization_close(build->quantization);
    if (status == KVA_OK)
        status = settle_bytes(build, checkpoint, quantization, by_config);
    if (status == KVA_OK)
        status = warn_of_towers(build);
    kva_safetensors_close(checkpoint);
    return status;
}
