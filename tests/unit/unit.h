// What unit tests do alike: open a model by name, ask what it needs, run a suite.
#ifndef TEST_UNIT_H
#define TEST_UNIT_H

#include <check.h>
#include <stdlib.h>

#include "base/error.h"
#include "kvatlas.h"

// options may be NULL.
static inline struct kva_model *unit_open(struct kva_atlas *atlas, const char *name,
                                          const struct kva_model_options *options)
{
    struct kva_error error = {0};
    struct kva_model *model;
    char line[1024];
    enum kva_status status = kva_model_open(atlas, name, options, &model, &error);
    ck_assert_msg(status == KVA_OK, "%s: %s", name, kva_error_line(&error, line, sizeof line));
    return model;
}

// Bytes that one sequence of `context` tokens needs at bf16.
static inline uint64_t unit_need(const struct kva_model *model, uint64_t context)
{
    const struct kva_deployment deployment = {
        .engine = "exact", .context = context, .kv_dtype = KVA_BF16, .model_dtype = KVA_BF16};
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, model, &deployment, &plan, NULL), KVA_OK);
    uint64_t bytes = plan->need;
    kva_plan_free(plan);
    return bytes;
}

// The exit status of the test program.
static inline int unit_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    const int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

// The same with an atlas for all of its tests.
static inline int unit_run_on(Suite *suite, struct kva_atlas **atlas)
{
    if (kva_atlas_open(NULL, atlas, NULL) != KVA_OK)
        return EXIT_FAILURE;
    const int status = unit_run(suite);
    kva_atlas_close(*atlas);
    return status;
}

#endif
