#include "report/result_json.h"

#include "report/result.h"

static json_t *numbers(const struct kva_numbers *numbers)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "weights", kva_json_count(numbers->weights), &failed);
    kva_json_set(object, "cache", kva_json_count(numbers->cache), &failed);
    kva_json_set(object, "activations", kva_json_count(numbers->activations), &failed);
    kva_json_set(object, "workspace", kva_json_count(numbers->workspace), &failed);
    kva_json_set(object, "process", kva_json_count(numbers->process), &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *device(const struct kva_device_info *info)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "backend", kva_json_text(info->backend), &failed);
    kva_json_set(object, "name", kva_json_text(info->name), &failed);
    kva_json_set(object, "driver", kva_json_text(info->driver), &failed);
    kva_json_set(object, "total_bytes", kva_json_count(info->total_bytes), &failed);
    kva_json_set(object, "page_bytes", kva_json_count(info->page_bytes), &failed);
    kva_json_set(object, "context_bytes", kva_json_count(info->context_bytes), &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *levels(const struct kva_result *result)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "asked", kva_json_text(kva_check_name(result->asked)), &failed);
    kva_json_set(object, "given", kva_json_text(kva_check_name(result->given)), &failed);
    kva_json_set(object, "lossless", kva_json_text(kva_check_name(result->lossless)), &failed);
    kva_json_set(object, "right", kva_json_text(kva_check_name(result->right)), &failed);
    if (result->lossless != KVA_NOT_CHECKED)
        kva_json_set(object, "lossless_difference", json_real(result->lossless_difference), &failed);
    if (result->right != KVA_NOT_CHECKED) {
        kva_json_set(object, "right_difference", json_real(result->right_difference), &failed);
        kva_json_set(object, "right_tolerance", json_real(result->right_tolerance), &failed);
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *timing(const struct kva_result *result)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "load_seconds", json_real(result->load_seconds), &failed);
    kva_json_set(object, "prompt_tokens", kva_json_count(result->prompt_tokens), &failed);
    kva_json_set(object, "pruned_rows", kva_json_count(result->pruned_rows), &failed);
    if (!result->spec.reference_form) {
        kva_json_set(object, "prefill_seconds", json_real(result->prefill_seconds), &failed);
        kva_json_set(object, "decoded_tokens", kva_json_count(result->spec.decode), &failed);
        kva_json_set(object, "decode_seconds", json_real(result->decode_seconds), &failed);
    }
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

// A case that could not run: what was asked for, and why not.
static json_t *unable(const struct kva_result *result)
{
    bool failed = false;
    char line[1024];
    json_t *object = json_object();
    kva_json_set(object, "model", kva_json_text(result->spec.model), &failed);
    kva_json_set(object, "policy", kva_json_text(result->spec.policy), &failed);
    kva_json_set(object, "context", kva_json_count(result->spec.context), &failed);
    kva_json_set(object, "sequences", kva_json_count(result->spec.sequences), &failed);
    kva_json_set(object, "kv_dtype", kva_json_dtype(result->spec.dtype), &failed);
    kva_json_set(object, "predicted", json_null(), &failed);
    kva_json_set(object, "measured", json_null(), &failed);
    kva_json_set(object, "live_cache_bytes", json_null(), &failed);
    kva_json_set(object, "difference_bytes", json_null(), &failed);
    kva_json_set(object, "process_tolerance_bytes", json_null(), &failed);
    kva_json_set(object, "levels", json_null(), &failed);
    kva_json_set(object, "timing", json_null(), &failed);
    kva_json_set(object, "verdict", json_string("error"), &failed);
    kva_json_set(object, "explanation", kva_json_text(kva_error_line(&result->error, line, sizeof line)), &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *one(const struct kva_result *result)
{
    if (result->status != KVA_OK)
        return unable(result);
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "model", kva_json_text(result->model->id), &failed);
    kva_json_set(object, "layers", kva_json_count(result->model->n_layers), &failed);
    kva_json_set(object, "policy", kva_json_text(result->spec.policy), &failed);
    kva_json_set(object, "context", kva_json_count(result->spec.context), &failed);
    kva_json_set(object, "sequences", kva_json_count(result->spec.sequences), &failed);
    kva_json_set(object, "kv_dtype", kva_json_dtype(result->spec.dtype), &failed);
    kva_json_set(object, "weights", kva_json_text(result->spec.weights), &failed);
    kva_json_set(object, "pruned", json_boolean(!result->spec.no_prune && result->pruned_rows > 0), &failed);
    kva_json_set(object, "predicted", numbers(&result->predicted), &failed);
    kva_json_set(object, "measured", numbers(&result->measured), &failed);
    kva_json_set(object, "live_cache_bytes", kva_json_count(result->live_cache_bytes), &failed);
    kva_json_set(object, "difference_bytes", json_integer(result->difference_bytes), &failed);
    kva_json_set(object, "process_tolerance_bytes", kva_json_count(result->process_tolerance), &failed);
    kva_json_set(object, "allocations", kva_json_count(result->n_ledger), &failed);
    kva_json_set(object, "levels", levels(result), &failed);
    kva_json_set(object, "verdict", kva_json_text(result->matches ? "match" : "mismatch"), &failed);
    kva_json_set(object, "explanation", result->matches ? json_null() : kva_json_text(result->explanation), &failed);
    kva_json_set(object, "timing", timing(result), &failed);
    if (!failed)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *ledger(const struct kva_result *result)
{
    bool failed = false;
    json_t *array = json_array();
    for (size_t i = 0; i < result->n_ledger; i++) {
        json_t *entry = json_object();
        kva_json_set(entry, "layer", kva_json_layer(result->ledger[i].layer), &failed);
        kva_json_set(entry, "purpose", kva_json_text(kva_purpose_name(result->ledger[i].purpose)), &failed);
        kva_json_set(entry, "asked", kva_json_count(result->ledger[i].asked), &failed);
        kva_json_set(entry, "given", kva_json_count(result->ledger[i].given), &failed);
        kva_json_append(array, entry, &failed);
    }
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *stages(const struct kva_stage_time *times)
{
    bool failed = false;
    json_t *array = json_array();
    for (int i = 0; i < KVA_N_STAGES; i++) {
        if (times[i].calls == 0)
            continue;
        json_t *entry = json_object();
        kva_json_set(entry, "stage", kva_json_text(kva_stage_name((enum kva_stage)i)), &failed);
        kva_json_set(entry, "calls", kva_json_count(times[i].calls), &failed);
        kva_json_set(entry, "milliseconds", json_real(times[i].milliseconds), &failed);
        kva_json_set(entry, "bytes", json_real(times[i].bytes), &failed);
        kva_json_set(entry, "flops", json_real(times[i].flops), &failed);
        kva_json_append(array, entry, &failed);
    }
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *generated(const struct kva_result *result)
{
    bool failed = false;
    json_t *array = json_array();
    for (uint64_t s = 0; s < result->spec.sequences; s++) {
        json_t *row = json_array();
        for (uint64_t i = 0; i < result->spec.decode; i++)
            kva_json_append(row, json_integer(result->generated[s * result->spec.decode + i]), &failed);
        kva_json_append(array, row, &failed);
    }
    if (!failed)
        return array;
    json_decref(array);
    return NULL;
}

enum kva_status kva_run_json(const struct kva_result *result, struct kva_text *out, struct kva_error *error)
{
    bool failed = false;
    json_t *object = json_object();
    kva_json_set(object, "schema", json_string("kvatlas/run/1"), &failed);
    kva_json_set(object, "device", device(&result->device), &failed);
    kva_json_set(object, "case", one(result), &failed);
    kva_json_set(object, "ledger", ledger(result), &failed);
    kva_json_set(object, "generated", generated(result), &failed);
    kva_json_set(object, "prefill_stages", stages(result->prefill_stages), &failed);
    kva_json_set(object, "decode_stages", stages(result->decode_stages), &failed);
    if (failed) {
        json_decref(object);
        object = NULL;
    }
    return kva_json_write(object, out, error);
}

enum kva_status kva_verify_json(const struct kva_result *results, size_t n, struct kva_text *out,
                                struct kva_error *error)
{
    bool failed = false;
    json_t *object = json_object(), *cases = json_array();
    for (size_t i = 0; i < n; i++)
        kva_json_append(cases, one(&results[i]), &failed);
    kva_json_set(object, "schema", json_string("kvatlas/verify/1"), &failed);
    size_t ran = 0;
    while (ran < n && results[ran].status != KVA_OK)
        ran++;
    kva_json_set(object, "device", ran < n ? device(&results[ran].device) : json_null(), &failed);
    kva_json_set(object, "cases", cases, &failed);
    if (failed) {
        json_decref(object);
        object = NULL;
    }
    return kva_json_write(object, out, error);
}
