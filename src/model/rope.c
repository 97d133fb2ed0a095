// Rotary parameters, as Transformers 5.17 reads them (modeling_rope_utils.py, RotaryEmbeddingConfigMixin): v5 keeps all
// of them in rope_parameters, flat or one object per kind of layer; v4 has rope_theta and partial_rotary_factor beside
// a rope_scaling object. rope_scaling wins where both are there.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/build.h"
#include "model/json.h"

// One object of rotary parameters and the name errors give it.
struct source {
    struct kva_build *build;
    const json_t *object;  // NULL: none
    const char *path;
};

static enum kva_status fail_in(const struct source *source, const char *key, const char *expected, const json_t *found)
{
    char name[128], buffer[KVA_JSON_FOUND];
    snprintf(name, sizeof name, "%s.%s", source->path, key);
    if (found == NULL)
        return kva_build_fail(source->build, name, "is missing, %s was expected", expected);
    return kva_build_fail(source->build, name, "expected %s, found %s", expected, kva_json_found(found, buffer));
}

// An absent or null number keeps what *number holds; so does 0 where 0 stands for "derive".
static enum kva_status read_number(const struct source *source, const char *key, bool required, double *number)
{
    const json_t *found = json_object_get(source->object, key);
    if (found == NULL || json_is_null(found))
        return required ? fail_in(source, key, "a number", found) : KVA_OK;
    if (!json_is_number(found) || !isfinite(json_number_value(found)) || json_number_value(found) < 0)
        return fail_in(source, key, "a number of 0 or more", found);
    *number = json_number_value(found);
    return KVA_OK;
}

static enum kva_status read_positive(const struct source *source, const char *key, bool required, double *number)
{
    enum kva_status status = read_number(source, key, required, number);
    if (status == KVA_OK && json_is_number(json_object_get(source->object, key)) && *number <= 0)
        return fail_in(source, key, "a number above 0", json_object_get(source->object, key));
    return status;
}

// One factor for each pair of rotating elements.
static enum kva_status read_factors(const struct source *source, const char *key, size_t expected,
                                    const double **factors, size_t *n)
{
    const json_t *found = json_object_get(source->object, key);
    if (!json_is_array(found))
        return fail_in(source, key, "a list of numbers", found);
    char wanted[96];
    snprintf(wanted, sizeof wanted, "a list of %zu numbers (half of the rotating width)", expected);
    *n = json_array_size(found);
    if (expected > 0 && *n != expected)
        return fail_in(source, key, wanted, found);
    double *copy = kva_arena_alloc(source->build->arena, *n + 1, sizeof *copy);
    if (copy == NULL)
        return kva_build_memory(source->build);
    for (size_t i = 0; i < *n; i++) {
        const json_t *entry = json_array_get(found, i);
        copy[i] = json_number_value(entry);
        if (!json_is_number(entry) || !(copy[i] > 0))
            return fail_in(source, key, "numbers above 0 only", found);
    }
    *factors = copy;
    return KVA_OK;
}

static enum kva_status read_type(const struct source *source, enum kva_rope_type *type)
{
    static const struct {
        const char *name;
        enum kva_rope_type type;
    } TYPES[] = {{"default", KVA_ROPE_DEFAULT}, {"linear", KVA_ROPE_LINEAR},     {"dynamic", KVA_ROPE_DYNAMIC},
                 {"yarn", KVA_ROPE_YARN},       {"longrope", KVA_ROPE_LONGROPE}, {"su", KVA_ROPE_LONGROPE},
                 {"llama3", KVA_ROPE_LLAMA3}};
    const char *key = json_object_get(source->object, "rope_type") != NULL ? "rope_type" : "type";
    const json_t *found = json_object_get(source->object, key);
    *type = KVA_ROPE_DEFAULT;
    if (found == NULL || json_is_null(found))
        return KVA_OK;
    for (size_t i = 0; json_is_string(found) && i < sizeof TYPES / sizeof *TYPES; i++)
        if (strcmp(json_string_value(found), TYPES[i].name) == 0) {
            *type = TYPES[i].type;
            // Phi-3 once called its long factors "yarn". (Transformers, configuration_phi3.py.)
            if (*type == KVA_ROPE_YARN && json_is_array(json_object_get(source->object, "long_factor")))
                *type = KVA_ROPE_LONGROPE;
            return KVA_OK;
        }
    return fail_in(source, key, "one of default, linear, dynamic, yarn, longrope, llama3", found);
}

// A class that has original_max_position_embeddings as a field of its own (phi3) goes by that, else the object's, else
// the config's, else the context limit.
static enum kva_status read_original(const struct source *source, struct kva_rope *rope)
{
    static const char KEY[] = "original_max_position_embeddings";
    const struct kva_value *field = kva_model_value(source->build->model, "original_context");
    const json_t *found = json_object_get(source->object, KEY);
    if (found == NULL || json_is_null(found))
        found = json_object_get(source->build->text, KEY);
    rope->original_context = rope->max_context;
    if (field != NULL)
        rope->original_context = field->count;
    else if (found != NULL && !json_is_null(found)) {
        if (!json_is_integer(found) || json_integer_value(found) <= 0)
            return fail_in(source, KEY, "a positive integer", found);
        rope->original_context = (uint64_t)json_integer_value(found);
    }
    return KVA_OK;
}

static enum kva_status read_yarn(const struct source *source, struct kva_rope *rope)
{
    static const char *const NAMES[] = {"attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"};
    double *const fields[] = {&rope->attention_factor, &rope->beta_fast, &rope->beta_slow, &rope->mscale,
                              &rope->mscale_all_dim};
    enum kva_status status = read_positive(source, "factor", false, &rope->factor);
    for (size_t i = 0; i < sizeof fields / sizeof *fields && status == KVA_OK; i++)
        status = read_number(source, NAMES[i], false, fields[i]);
    if (rope->beta_fast == 0)
        rope->beta_fast = 32;
    if (rope->beta_slow == 0)
        rope->beta_slow = 1;
    const json_t *truncate = json_object_get(source->object, "truncate");
    rope->truncate = !json_is_false(truncate);
    if (status == KVA_OK && truncate != NULL && !json_is_boolean(truncate) && !json_is_null(truncate))
        status = fail_in(source, "truncate", "true or false", truncate);
    return status;
}

static enum kva_status read_longrope(const struct source *source, struct kva_rope *rope)
{
    const struct kva_value *width = kva_model_value(source->build->model, "head_dim");
    size_t pairs = width != NULL ? (size_t)((double)width->count * rope->partial) / 2 : 0;
    enum kva_status status = read_factors(source, "short_factor", pairs, &rope->short_factor, &rope->n_short_factor);
    if (status == KVA_OK)
        status = read_factors(source, "long_factor", pairs, &rope->long_factor, &rope->n_long_factor);
    if (status == KVA_OK)
        status = read_positive(source, "factor", false, &rope->factor);
    if (status == KVA_OK)
        status = read_number(source, "attention_factor", false, &rope->attention_factor);
    return status;
}

// Fills *rope, whose theta, partial and max_context hold what is to be used where the object is silent.
static enum kva_status read_rope(const struct source *source, struct kva_rope *rope)
{
    enum kva_status status = read_type(source, &rope->type);
    if (status == KVA_OK)
        status = read_positive(source, "rope_theta", false, &rope->theta);
    if (status == KVA_OK)
        status = read_positive(source, "partial_rotary_factor", false, &rope->partial);
    if (status == KVA_OK && rope->partial > 1)
        status = fail_in(source, "partial_rotary_factor", "a share of at most 1",
                         json_object_get(source->object, "partial_rotary_factor"));
    rope->factor = 0;
    rope->truncate = true;
    if (status == KVA_OK &&
        (rope->type == KVA_ROPE_LLAMA3 || rope->type == KVA_ROPE_YARN || rope->type == KVA_ROPE_LONGROPE))
        status = read_original(source, rope);
    if (status != KVA_OK)
        return status;
    switch (rope->type) {
    case KVA_ROPE_LINEAR:
    case KVA_ROPE_DYNAMIC:
        status = read_positive(source, "factor", true, &rope->factor);
        break;
    case KVA_ROPE_LLAMA3:
        status = read_positive(source, "factor", true, &rope->factor);
        if (status == KVA_OK)
            status = read_positive(source, "low_freq_factor", true, &rope->low_freq_factor);
        if (status == KVA_OK)
            status = read_positive(source, "high_freq_factor", true, &rope->high_freq_factor);
        break;
    case KVA_ROPE_YARN:
        status = read_yarn(source, rope);
        break;
    case KVA_ROPE_LONGROPE:
        status = read_longrope(source, rope);
        break;
    default:
        break;
    }
    if (rope->factor == 0)  // absent: yarn and longrope stretch by limit / original, the others not at all
        rope->factor = rope->original_context > 0 ? (double)rope->max_context / (double)rope->original_context : 1;
    return status;
}

static enum kva_status object_at(struct kva_build *build, const json_t *parent, const char *key, const json_t **object)
{
    *object = json_object_get(parent, key);
    char found[KVA_JSON_FOUND];
    if (json_is_null(*object))
        *object = NULL;
    if (*object != NULL && !json_is_object(*object))
        return kva_build_fail(build, key, "expected an object, found %s", kva_json_found(*object, found));
    if (json_object_size(*object) == 0)
        *object = NULL;
    return KVA_OK;
}

// Numbers beside the objects: the v4 way.
static enum kva_status read_beside(struct kva_build *build, const char *key, double *number)
{
    const json_t *found = json_object_get(build->text, key);
    char buffer[KVA_JSON_FOUND];
    if (found == NULL || json_is_null(found))
        return KVA_OK;
    if (!json_is_number(found) || !(json_number_value(found) > 0) || !isfinite(json_number_value(found)))
        return kva_build_fail(build, key, "expected a number above 0, found %s", kva_json_found(found, buffer));
    *number = json_number_value(found);
    return KVA_OK;
}

static enum kva_status default_object(struct kva_build *build, const json_t **object)
{
    json_error_t problem;
    build->defaults = json_loads(build->arch->rope->scaling, JSON_REJECT_DUPLICATES, &problem);
    if (!json_is_object(build->defaults))
        return kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, "rope.scaling", "is not a JSON object");
    *object = build->defaults;
    return KVA_OK;
}

enum kva_status kva_rope_read(struct kva_build *build)
{
    const struct kva_arch_rope *arch = build->arch->rope;
    struct kva_rope *main_rope = &build->model->rope_main, *local = &build->model->rope_local;
    const json_t *scaling, *parameters, *full = NULL, *sliding = NULL;
    *main_rope = (struct kva_rope){.partial = 1, .factor = 1, .truncate = true};
    main_rope->max_context = build->model->context_limit;
    *local = *main_rope;
    if (arch == NULL || arch->none)
        return KVA_OK;
    main_rope->theta = strtod(arch->theta, NULL);
    enum kva_status status = object_at(build, build->text, "rope_scaling", &scaling);
    if (status == KVA_OK)
        status = object_at(build, build->text, "rope_parameters", &parameters);
    if (status == KVA_OK)
        status = read_beside(build, "rope_theta", &main_rope->theta);
    if (status == KVA_OK)
        status = read_beside(build, "partial_rotary_factor", &main_rope->partial);
    *local = *main_rope;
    if (status == KVA_OK && arch->local_theta != NULL) {
        local->theta = strtod(arch->local_theta, NULL);
        if (arch->local_theta_key != NULL)
            status = read_beside(build, arch->local_theta_key, &local->theta);
    }
    if (status == KVA_OK)
        status = object_at(build, parameters, "full_attention", &full);
    if (status == KVA_OK)
        status = object_at(build, parameters, "sliding_attention", &sliding);
    if (status == KVA_OK && scaling == NULL && parameters == NULL && arch->scaling != NULL)
        status = default_object(build, &scaling);
    if (status != KVA_OK)
        return status;
    bool nested = full != NULL || sliding != NULL;
    struct source for_full = {build, scaling != NULL ? scaling : nested ? full : parameters, NULL};
    for_full.path = scaling != NULL ? "rope_scaling" : nested ? "rope_parameters.full_attention" : "rope_parameters";
    status = read_rope(&for_full, main_rope);
    if (status != KVA_OK)
        return status;
    // Scaling is for the full layers only where an architecture gives its sliding layers a theta of their own (gemma3).
    if (nested || arch->local_theta != NULL) {
        struct source for_sliding = {build, sliding, "rope_parameters.sliding_attention"};
        return read_rope(&for_sliding, local);
    }
    *local = *main_rope;
    return KVA_OK;
}
