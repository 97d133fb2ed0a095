// Predicted against measured: what a run's ledger, the driver's account and the logits say of the plan.
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/checked.h"
#include "verify/verify.h"

__attribute__((format(printf, 3, 4))) static void fail(struct kva_result *result, enum kva_check *check,
                                                       const char *format, ...)
{
    *check = KVA_FAILS;
    result->matches = false;
    if (result->explanation[0] != '\0')
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->explanation, sizeof result->explanation, format, arguments);
    va_end(arguments);
}

// Level 1: each layer's cache, and the sums of the other purposes, byte for byte.
static void judge_asked(struct kva_result *result)
{
    const struct kva_plan *plan = result->plan;
    result->asked = KVA_HOLDS;
    for (size_t i = 0; i < plan->n_layers; i++) {
        uint64_t asked = 0;
        for (size_t e = 0; e < result->n_ledger; e++)
            if (result->ledger[e].purpose == KVA_CACHE && result->ledger[e].layer == (int32_t)plan->layers[i].index)
                asked += result->ledger[e].asked;
        if (asked != plan->layers[i].allocated)
            fail(result, &result->asked, "layer %" PRIu32 ": cache predicted %" PRIu64 " B, asked %" PRIu64 " B",
                 plan->layers[i].index, plan->layers[i].allocated, asked);
    }
    const struct {
        const char *name;
        uint64_t predicted, measured;
    } sums[] = {
        {"weights", result->predicted.weights, result->measured.weights},
        {"cache", result->predicted.cache, result->measured.cache},
        {"activations", result->predicted.activations, result->measured.activations},
        {"workspace", result->predicted.workspace, result->measured.workspace},
    };
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        if (sums[i].predicted != sums[i].measured)
            fail(result, &result->asked, "%s: predicted %" PRIu64 " B, asked %" PRIu64 " B", sums[i].name,
                 sums[i].predicted, sums[i].measured);
    if (result->footprint.allocations != result->n_ledger)
        fail(result, &result->asked, "%" PRIu64 " allocations predicted, %zu made", result->footprint.allocations,
             result->n_ledger);
}

// Level 2: the driver's account of the process, within one page for each allocation.
static void judge_given(struct kva_result *result)
{
    const uint64_t a = result->predicted.process, b = result->measured.process;
    result->given = KVA_HOLDS;
    if ((a > b ? a - b : b - a) > result->process_tolerance)
        fail(result, &result->given,
             "process: predicted %" PRIu64 " B, the driver's account says %" PRIu64 " B, further apart than %" PRIu64
             " B (one page for each allocation)",
             a, b, result->process_tolerance);
}

void kva_result_judge(struct kva_result *result)
{
    result->matches = true;
    result->explanation[0] = '\0';
    result->difference_bytes = (int64_t)(result->measured.cache - result->predicted.cache);
    judge_asked(result);
    judge_given(result);
    if (result->lossless == KVA_FAILS)
        fail(result, &result->lossless, "logits under exact and full differ by %g", result->lossless_difference);
    if (result->right == KVA_FAILS)
        fail(result, &result->right, "logits differ from the reference's by %g, %g is allowed",
             result->right_difference, result->right_tolerance);
}

static double difference(const float *a, const float *b, uint64_t n)
{
    double largest = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double apart = fabs((double)a[i] - (double)b[i]);
        if (!(apart <= largest))  // a NaN is the largest difference there is
            largest = isnan(apart) ? INFINITY : apart;
    }
    return largest;
}

void kva_result_compare_lossless(struct kva_result *a, struct kva_result *b)
{
    if (a->logits == NULL || b->logits == NULL || a->logit_rows != b->logit_rows || a->vocab != b->vocab)
        return;
    double apart = difference(a->logits, b->logits, a->logit_rows * a->vocab);
    if (a->decode_logits != NULL && b->decode_logits != NULL && a->decode_rows == b->decode_rows)
        apart = fmax(apart, difference(a->decode_logits, b->decode_logits, a->decode_rows * a->vocab));
    a->lossless_difference = b->lossless_difference = apart;
    // both policies visit the same keys in the same order: the very same bits are expected
    a->lossless = b->lossless = apart == 0 ? KVA_HOLDS : KVA_FAILS;
    kva_result_judge(a);
    kva_result_judge(b);
}
