// config.json: read, planned under both policies, and let go.
#include "fuzz.h"
#include "kvatlas.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct kva_atlas *atlas;
    char path[64];
    struct kva_model *model;
    if (atlas == NULL && kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        abort();
    const int file = fuzz_file(bytes, size, path);
    if (kva_model_open(atlas, path, NULL, &model, NULL) == KVA_OK) {
        static const char *const POLICIES[] = {"exact", "full"};
        for (int i = 0; i < 2; i++) {
            struct kva_plan *plan;
            const struct kva_deployment deployment = {.engine = POLICIES[i], .context = 131072, .sequences = 3};
            if (kva_plan_make(atlas, model, &deployment, &plan, NULL) == KVA_OK) {
                if (plan->need > plan->allocated)  // no policy may hold less than the architecture must keep
                    abort();
                kva_plan_free(plan);
            }
        }
        kva_model_close(model);
    }
    close(file);
    return 0;
}
