// Level 5: the run's logits against an independent implementation's.
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "model/safetensors.h"
#include "verify/verify.h"

// How far a run's logits are from the reference's.
struct distance {
    double largest;    // absolute difference
    double rms;        // root of the mean square difference, of the worst tensor
    double deviation;  // standard deviation of the reference's `logits`
};

static enum kva_status compare(const char *path, const struct kva_st_tensor *expected, const char *name,
                               const float *logits, uint64_t rows, uint64_t vocab, struct distance *distance,
                               struct kva_error *error)
{
    if (expected == NULL)
        return kva_fail(error, KVA_BAD_INPUT, path, name, "is not in the reference");
    if (expected->dtype != KVA_F32 || expected->n_dims != 2 || expected->dims[0] != rows || expected->dims[1] != vocab)
        return kva_fail(error, KVA_BAD_INPUT, path, name, "f32 [%" PRIu64 ", %" PRIu64 "] was expected", rows, vocab);
    double sum = 0, squares = 0, apart = 0;
    const uint64_t n = rows * vocab;
    for (uint64_t i = 0; i < n; i++) {
        float value;
        memcpy(&value, expected->data + i * sizeof value, sizeof value);
        const double difference = fabs((double)value - (double)logits[i]);
        if (!(difference <= distance->largest))
            distance->largest = isnan(difference) ? INFINITY : difference;
        apart += difference * difference;
        sum += value;
        squares += (double)value * value;
    }
    apart = sqrt(apart / (double)n);
    if (!(apart <= distance->rms))
        distance->rms = isnan(apart) ? INFINITY : apart;
    if (distance->deviation == 0)
        distance->deviation = sqrt(fmax(squares / (double)n - sum / (double)n * (sum / (double)n), 0));
    return KVA_OK;
}

enum kva_status kva_reference_compare(const struct kva_case *spec, struct kva_result *result, struct kva_error *error)
{
    struct kva_safetensors *file;
    enum kva_status status = kva_safetensors_open(spec->reference, false, &file, error);
    if (status != KVA_OK)
        return status;
    struct distance distance = {0};
    status = compare(spec->reference, kva_safetensors_find(file, "logits"), "logits", result->logits,
                     result->logit_rows, result->vocab, &distance, error);
    if (status == KVA_OK && result->decode_rows > 0)
        status = compare(spec->reference, kva_safetensors_find(file, "decode_logits"), "decode_logits",
                         result->decode_logits, result->decode_rows, result->vocab, &distance, error);
    kva_safetensors_close(file);
    if (status != KVA_OK)
        return status;
    // f32: no logit may be off. bf16: the noise of rounded activations, as a share of the logits' own spread.
    const bool bf16 = spec->dtype == KVA_BF16, cuda = strcmp(result->device.backend, "cuda") == 0;
    result->right_difference = bf16 ? distance.rms : distance.largest;
    result->right_tolerance = bf16 ? 3e-2 * distance.deviation : cuda ? 1e-3 : 1e-4;
    if (spec->tolerance > 0)
        result->right_tolerance = spec->tolerance;
    result->right = result->right_difference <= result->right_tolerance ? KVA_HOLDS : KVA_FAILS;
    return KVA_OK;
}

uint64_t kva_reference_prefill(const char *path, uint64_t tokens)
{
    struct kva_safetensors *file;
    if (kva_safetensors_open(path, false, &file, NULL) != KVA_OK)
        return 0;
    const struct kva_st_tensor *rows = kva_safetensors_find(file, "decode_logits");
    const uint64_t decoded = rows != NULL && rows->n_dims == 2 ? rows->dims[0] : 0;
    kva_safetensors_close(file);
    return decoded > 0 && decoded < tokens ? tokens - decoded : 0;
}
