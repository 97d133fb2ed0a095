// How long the whole catalogue takes under every engine at its newest version and at four contexts, in one process,
// opening every model included. Prints the time, cells a second and the ratio to the goal (100 ms). A cell that an
// engine refuses counts too: it was decided. Passes and fails nothing.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "kvatlas.h"

static const uint64_t CONTEXTS[] = {4096, 32768, 131072, 1048576};
enum { N_CONTEXTS = sizeof CONTEXTS / sizeof *CONTEXTS, ROUNDS = 5 };
static const double GOAL = 0.1;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

struct count {
    unsigned long models, planned, refused;
    double opening;  // seconds in kva_model_open
};

static void run_model(struct kva_atlas *atlas, const char *id, struct count *count)
{
    const struct kva_model_options options = {.no_tensors = true};
    struct kva_model *model;
    const double start = now();
    if (kva_model_open(atlas, id, &options, &model, NULL) != KVA_OK)
        return;
    count->models++;
    count->opening += now() - start;
    for (size_t e = 0; kva_engine_name(e) != NULL; e++)
        for (int c = 0; c < N_CONTEXTS; c++) {
            const struct kva_deployment deployment = {.engine = kva_engine_name(e), .context = CONTEXTS[c]};
            struct kva_plan *plan;
            if (kva_plan_make(atlas, model, &deployment, &plan, NULL) == KVA_OK) {
                count->planned++;
                kva_plan_free(plan);
            } else
                count->refused++;
        }
    kva_model_close(model);
}

int main(void)
{
    double best = 0;
    struct count count = {0};
    for (int round = 0; round < ROUNDS; round++) {
        struct kva_atlas *atlas;
        struct kva_catalogue *catalogue;
        struct count counted = {0};
        if (kva_atlas_open(NULL, &atlas, NULL) != KVA_OK || kva_catalogue_open(atlas, NULL, &catalogue, NULL) != KVA_OK)
            return EXIT_FAILURE;
        kva_atlas_close(atlas);
        const double start = now();  // with nothing read yet
        if (kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
            return EXIT_FAILURE;
        for (size_t i = 0; i < catalogue->n_entries; i++)
            run_model(atlas, catalogue->entries[i].id, &counted);
        kva_atlas_close(atlas);
        const double seconds = now() - start;
        kva_catalogue_close(catalogue);
        if (round == 0 || seconds < best) {
            best = seconds;
            count = counted;
        }
    }
    size_t engines = 0;
    while (kva_engine_name(engines) != NULL)
        engines++;
    const double cells = (double)(count.planned + count.refused);
    printf("%lu models x %zu engines x %d contexts: %.0f cells, %lu planned and %lu refused\n", count.models, engines,
           N_CONTEXTS, cells, count.planned, count.refused);
    printf("%.1f ms, of which %.1f ms open the models; %.0f cells/s; %.2f of the goal of %.0f ms\n", best * 1e3,
           count.opening * 1e3, cells / best, best / GOAL, GOAL * 1e3);
    return EXIT_SUCCESS;
}
