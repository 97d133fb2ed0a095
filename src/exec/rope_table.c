#include "exec/rope_table.h"

#include <math.h>

#include "base/checked.h"
#include "base/error.h"

static const double PI = 3.14159265358979323846;

uint64_t kva_rope_dim(const struct kva_rope *rope, uint64_t head_dim)
{
    return rope->type == KVA_ROPE_NONE ? 0 : (uint64_t)((double)head_dim * rope->partial) / 2 * 2;
}

static double base_frequency(double theta, uint64_t pair, uint64_t dim)
{
    return 1 / pow(theta, (double)(2 * pair) / (double)dim);
}

// Dynamic NTK: a longer context raises theta.
static double dynamic_theta(const struct kva_rope *rope, uint64_t dim, uint64_t tokens)
{
    const double limit = (double)rope->max_context, length = tokens > rope->max_context ? (double)tokens : limit;
    const double stretch = rope->factor * length / limit - (rope->factor - 1);
    return rope->theta * pow(stretch, (double)dim / ((double)dim - 2));
}

// Llama 3: long wavelengths are divided by factor, short ones kept, those between interpolated.
static double llama3(const struct kva_rope *rope, double frequency)
{
    const double context = (double)rope->original_context, wavelength = 2 * PI / frequency;
    if (wavelength < context / rope->high_freq_factor)
        return frequency;
    if (wavelength > context / rope->low_freq_factor)
        return frequency / rope->factor;
    const double smooth =
        (context / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return (1 - smooth) * frequency / rope->factor + smooth * frequency;
}

// YaRN, https://arxiv.org/abs/2309.00071, section 3.2: which dimension makes `rotations` turns in the original context.
static double yarn_dimension(const struct kva_rope *rope, double rotations, uint64_t dim)
{
    return (double)dim * log((double)rope->original_context / (rotations * 2 * PI)) / (2 * log(rope->theta));
}

static double yarn(const struct kva_rope *rope, uint64_t pair, uint64_t dim)
{
    double low = yarn_dimension(rope, rope->beta_fast, dim), high = yarn_dimension(rope, rope->beta_slow, dim);
    if (rope->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)dim - 1);
    if (low == high)
        high += 0.001;
    const double ramp = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    const double frequency = base_frequency(rope->theta, pair, dim);
    return frequency / rope->factor * ramp + frequency * (1 - ramp);
}

static double yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double yarn_scale(const struct kva_rope *rope)
{
    if (rope->attention_factor > 0)
        return rope->attention_factor;
    if (rope->mscale != 0 && rope->mscale_all_dim != 0)
        return yarn_mscale(rope->factor, rope->mscale) / yarn_mscale(rope->factor, rope->mscale_all_dim);
    return yarn_mscale(rope->factor, 1);
}

// LongRoPE, https://arxiv.org/abs/2402.13753: sqrt(1 + ln(stretch) / ln(original context)).
static double longrope_scale(const struct kva_rope *rope)
{
    if (rope->attention_factor > 0)
        return rope->attention_factor;
    const double stretch = rope->factor > 1 ? rope->factor : (double)rope->max_context / (double)rope->original_context;
    return stretch <= 1 ? 1 : sqrt(1 + log(stretch) / log((double)rope->original_context));
}

enum kva_status kva_rope_table(const struct kva_rope *rope, uint64_t head_dim, uint64_t tokens, float *table,
                               float *scale, struct kva_error *error)
{
    const uint64_t dim = kva_rope_dim(rope, head_dim);
    const bool longer = tokens > rope->original_context;
    const double *factors = longer ? rope->long_factor : rope->short_factor;
    const size_t n_factors = longer ? rope->n_long_factor : rope->n_short_factor;
    if (rope->type == KVA_ROPE_LONGROPE && n_factors != dim / 2)
        return kva_fail(error, KVA_BAD_INPUT, NULL, longer ? "rope_scaling.long_factor" : "rope_scaling.short_factor",
                        "has %zu factors, the %llu rotating elements of a head need %llu", n_factors,
                        (unsigned long long)dim, (unsigned long long)(dim / 2));
    *scale = 1;
    if (rope->type == KVA_ROPE_YARN)
        *scale = (float)yarn_scale(rope);
    else if (rope->type == KVA_ROPE_LONGROPE)
        *scale = (float)longrope_scale(rope);
    const double theta = rope->type == KVA_ROPE_DYNAMIC ? dynamic_theta(rope, dim, tokens) : rope->theta;
    for (uint64_t pair = 0; pair < dim / 2; pair++) {
        double frequency = base_frequency(theta, pair, dim);
        if (rope->type == KVA_ROPE_LINEAR)
            frequency /= rope->factor;
        else if (rope->type == KVA_ROPE_LLAMA3)
            frequency = llama3(rope, frequency);
        else if (rope->type == KVA_ROPE_YARN)
            frequency = yarn(rope, pair, dim);
        else if (rope->type == KVA_ROPE_LONGROPE)
            frequency /= factors[pair];
        table[pair] = (float)frequency;
    }
    return KVA_OK;
}
