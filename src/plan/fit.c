// Does a deployment fit on a GPU; how much more or less would.
#include <string.h>

#include "base/arena.h"
#include "base/checked.h"
#include "base/error.h"
#include "plan/fit_knobs.h"
#include "plan/search.h"

struct fitting {
    struct kva_search search;
    struct kva_fit *fit;
    struct kva_arena *arena;
    struct kva_error *error;
};

static enum kva_status plan_asked(struct fitting *fitting)
{
    struct kva_fit *fit = fitting->fit;
    const struct kva_search *search = &fitting->search;
    enum kva_status status =
        kva_plan_make(search->atlas, search->model, &search->deployment, &fit->plan, fitting->error);
    if (status != KVA_OK)
        return status;
    const struct kva_deployment *resolved = &fit->plan->deployment;
    if (resolved->gpu_bytes == 0 && resolved->kv_bytes == 0 && !fit->plan->capacity.known)
        return kva_fail(fitting->error, KVA_BAD_INPUT, NULL, "--gpu",
                        "how much memory is there? --gpu NAME (kvatlas gpus lists them), --gpu-memory BYTES, or "
                        "--kv-bytes BYTES for the caches alone");
    if (!fit->plan->capacity.known)
        return kva_fail(fitting->error, KVA_REFUSED, NULL, "--engine",
                        "%s does not say what fits in a memory; --kv-bytes BYTES says what there is for caches",
                        fit->plan->engine_name);
    fit->fits = fit->plan->capacity.fits;
    fit->weights_too_large = resolved->kv_short > 0;
    return KVA_OK;
}

// The largest context for the sequences asked for, and what ends it.
static enum kva_status find_context(struct fitting *fitting)
{
    struct kva_fit *fit = fitting->fit;
    struct kva_deployment *deployment = &fitting->search.deployment;
    const struct kva_deployment before = *deployment;
    const uint64_t limit = fitting->search.model->context_limit;
    const uint64_t most = limit == 0 ? KVA_UNKNOWN : kva_max(limit, before.context);
    deployment->auto_context = false;
    enum kva_status status = kva_search_largest(&fitting->search, &deployment->context, most, &fit->max_context);
    *deployment = before;
    fit->limited_by_model = limit > 0 && fit->max_context == limit && most == limit;
    return status;
}

static enum kva_status find_sequences(struct fitting *fitting, uint64_t context, uint64_t *found)
{
    struct kva_deployment *deployment = &fitting->search.deployment;
    const struct kva_deployment before = *deployment;
    deployment->context = context;
    deployment->auto_context = false;
    enum kva_status status = kva_search_largest(&fitting->search, &deployment->sequences, KVA_UNKNOWN, found);
    *deployment = before;
    return status;
}

// ---------------------------------------------------------------- sweeps

static enum kva_status sweep_point(struct fitting *fitting, uint64_t context, struct kva_fit_point *point)
{
    const struct kva_search *search = &fitting->search;
    struct kva_deployment deployment = search->deployment;
    struct kva_error refused = {0};
    struct kva_plan *plan;
    char line[1024];
    deployment.context = context;
    deployment.auto_context = false;
    *point = (struct kva_fit_point){.context = context};
    enum kva_status status = kva_plan_make(search->atlas, search->model, &deployment, &plan, &refused);
    if (status == KVA_MACHINE) {
        if (fitting->error != NULL)
            *fitting->error = refused;
        return status;
    }
    if (status != KVA_OK) {
        point->refusal = kva_arena_strdup(fitting->arena, kva_error_line(&refused, line, sizeof line));
        return point->refusal != NULL ? KVA_OK : kva_fail_memory(fitting->error, sizeof line);
    }
    point->planned = true;
    point->fits = plan->capacity.known && plan->capacity.fits;
    point->need = plan->need;
    point->allocated = plan->allocated;
    point->budget = plan->capacity.budget;
    if (plan->capacity.refusal != NULL) {
        point->refusal = kva_arena_strdup(fitting->arena, plan->capacity.refusal);
        if (point->refusal == NULL)
            status = kva_fail_memory(fitting->error, 0);
    }
    kva_plan_free(plan);
    return status == KVA_OK ? find_sequences(fitting, context, &point->max_sequences) : status;
}

enum { FIRST_CONTEXT = 1024, LAST_CONTEXT = 1 << 20, MOST_POINTS = 256 };

static enum kva_status sweep(struct fitting *fitting, const struct kva_fit_options *options)
{
    struct kva_fit *fit = fitting->fit;
    const uint64_t limit = fitting->search.model->context_limit;
    const uint64_t last = limit > 0 ? limit : LAST_CONTEXT;
    enum kva_status status = KVA_OK;
    if (options->n_contexts > MOST_POINTS)
        return kva_fail(fitting->error, KVA_BAD_INPUT, NULL, "--contexts", "more than %d contexts", (int)MOST_POINTS);
    fit->points = kva_arena_alloc(fitting->arena, MOST_POINTS, sizeof *fit->points);
    if (fit->points == NULL)
        return kva_fail_memory(fitting->error, MOST_POINTS * sizeof *fit->points);
    for (size_t i = 0; status == KVA_OK && i < options->n_contexts; i++)
        status = sweep_point(fitting, options->contexts[i], &fit->points[fit->n_points++]);
    if (options->n_contexts > 0)
        return status;
    uint64_t context = kva_min(FIRST_CONTEXT, last);
    for (;; context = context > last / 2 ? last : context * 2) {  // the limit itself comes last
        status = sweep_point(fitting, context, &fit->points[fit->n_points++]);
        if (status != KVA_OK || context == last)
            return status;
    }
}

// ---------------------------------------------------------------- all of it

static enum kva_status run(struct fitting *fitting, const struct kva_fit_options *options)
{
    struct kva_fit *fit = fitting->fit;
    enum kva_status status = plan_asked(fitting);
    if (status == KVA_OK)
        status = find_context(fitting);
    if (status == KVA_OK)
        status = find_sequences(fitting, fit->plan->deployment.context, &fit->max_sequences);
    if (status == KVA_OK && !fit->fits && !options->no_knobs)
        status = kva_fit_knobs(&fitting->search, fit->plan, fitting->arena, &fit->knobs, &fit->n_knobs, fitting->error);
    if (status == KVA_OK && options->sweep)
        status = sweep(fitting, options);
    if (status == KVA_OK)
        status = kva_decode_cost(fit->plan, fitting->error);
    return status;
}

enum kva_status kva_fit_make(struct kva_atlas *atlas, const struct kva_model *model,
                             const struct kva_deployment *deployment, const struct kva_fit_options *options,
                             struct kva_fit **fit, struct kva_error *error)
{
    static const struct kva_fit_options NONE = {0};
    *fit = NULL;
    struct kva_arena *arena = kva_arena_new();
    struct kva_fit *made = arena != NULL ? kva_arena_alloc(arena, 1, sizeof *made) : NULL;
    if (made == NULL) {
        kva_arena_free(arena);
        return kva_fail_memory(error, sizeof *made);
    }
    made->arena = arena;
    struct fitting fitting = {.fit = made, .arena = arena, .error = error};
    fitting.search = (struct kva_search){.atlas = atlas, .model = model, .deployment = *deployment, .error = error};
    enum kva_status status = run(&fitting, options != NULL ? options : &NONE);
    if (status == KVA_OK)
        *fit = made;
    else
        kva_fit_free(made);
    return status;
}

void kva_fit_free(struct kva_fit *fit)
{
    if (fit == NULL)
        return;
    kva_plan_free(fit->plan);
    kva_arena_free(fit->arena);
}
