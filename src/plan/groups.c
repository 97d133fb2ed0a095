#include "plan/groups.h"

#include <string.h>

#include "base/error.h"
#include "engine/cache_bytes.h"

static bool alike(const struct kva_layer *a, const struct kva_layer *b)
{
    if (a->n_caches != b->n_caches || a->mixer != b->mixer || strcmp(a->kind, b->kind) != 0)
        return false;
    for (size_t c = 0; c < a->n_caches; c++)
        if (!kva_cache_same_shape(&a->caches[c], &b->caches[c]) || a->caches[c].window != b->caches[c].window ||
            a->caches[c].window_inert != b->caches[c].window_inert ||
            a->caches[c].reads_layer != b->caches[c].reads_layer)
            return false;
    return true;
}

enum kva_status kva_layer_groups(const struct kva_model *model, const struct kva_plan *plan, struct kva_arena *arena,
                                 struct kva_layer_group **groups, size_t *n_groups, struct kva_error *error)
{
    size_t n = 0, *group_of = kva_arena_alloc(arena, model->n_layers + 1, sizeof *group_of);
    struct kva_layer_group *made = kva_arena_alloc(arena, model->n_layers + 1, sizeof *made);
    if (made == NULL || group_of == NULL)
        return kva_fail_memory(error, model->n_layers * sizeof *made);
    for (size_t i = 0; i < model->n_layers; i++) {
        size_t g = 0;
        while (g < n && !alike(made[g].first, &model->layers[i]))
            g++;
        if (g == n)
            made[n++].first = &model->layers[i];
        made[g].n_layers++;
        group_of[i] = g;
        if (plan == NULL)
            continue;
        // no sum can wrap: the plan's totals did not
        made[g].need += plan->layers[i].need;
        made[g].allocated += plan->layers[i].allocated;
        made[g].sharing_saved += plan->layers[i].sharing_saved;
    }
    for (size_t g = 0; g < n; g++) {
        made[g].layers = kva_arena_alloc(arena, made[g].n_layers, sizeof *made[g].layers);
        if (made[g].layers == NULL)
            return kva_fail_memory(error, made[g].n_layers * sizeof *made[g].layers);
        made[g].n_layers = 0;
    }
    for (size_t i = 0; i < model->n_layers; i++) {
        struct kva_layer_group *group = &made[group_of[i]];
        group->layers[group->n_layers++] = model->layers[i].index;
    }
    *groups = made;
    *n_groups = n;
    return KVA_OK;
}
