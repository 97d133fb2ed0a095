// Real logs of llama.cpp and of what was made from it. engines/llamacpp-logs.jsonl holds, for each, the model, the
// flags
// (`inferred`: those that the log does not say and that reproduce it) and the numbers that it printed: of each cache,
// or of the lines that `lines` quotes; `skipped` says why one is not planned.
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gguf_meta.h"
#include "jsonl.h"
#include "unit.h"

static struct kva_model *open_model(struct kva_atlas *atlas, const json_t *record, const char *header)
{
    const char *name = json_string_value(json_object_get(record, "model"));
    json_t *config = json_object_get(record, "config"), *meta = json_object_get(record, "header");
    if (name != NULL)
        return unit_open(atlas, name, NULL);
    if (meta != NULL) {
        save_meta(meta, header);
        return unit_open(atlas, header, NULL);
    }
    char *bytes = json_dumps(config, 0), line[1024];
    struct kva_error error = {0};
    struct kva_model *model;
    ck_assert_ptr_nonnull(bytes);
    ck_assert_msg(kva_model_from_json(atlas, bytes, strlen(bytes), "config", NULL, &model, &error) == KVA_OK, "%s",
                  kva_error_line(&error, line, sizeof line));
    free(bytes);
    return model;
}

static const struct kva_quantity *quantity_of(const struct kva_print_line *line, const char *name)
{
    for (size_t q = 0; q < line->n_quantities; q++)
        if (strcmp(line->quantities[q].name, name) == 0)
            return &line->quantities[q];
    return NULL;
}

// A number that the record holds is the one of the line, in two decimals.
static bool same(const json_t *printed, const char *key, const struct kva_print_line *line, const char *name)
{
    char predicted[64], recorded[64];
    const json_t *number = json_object_get(printed, key);
    const struct kva_quantity *quantity = quantity_of(line, name);
    if (number == NULL)
        return true;
    if (quantity == NULL)
        return false;
    snprintf(predicted, sizeof predicted, "%.2f", quantity->real);
    snprintf(recorded, sizeof recorded, "%.2f", json_number_value(number));
    return strcmp(predicted, recorded) == 0;
}

static bool is_of(const json_t *printed, const struct kva_print_line *line)
{
    static const struct {
        const char *key, *name;
    } NUMBERS[] = {{"cells", "cells"}, {"layers", "layers"}, {"layers_printed", "layers"}, {"total_MiB", "mib"},
                   {"K_MiB", "k_mib"}, {"V_MiB", "v_mib"},   {"R_MiB", "r_mib"},           {"S_MiB", "s_mib"}};
    const bool kv = strcmp(line->id, "kv_size") == 0, state = strcmp(line->id, "state_size") == 0;
    for (size_t n = 0; n < sizeof NUMBERS / sizeof *NUMBERS; n++)
        if (!same(printed, NUMBERS[n].key, line, NUMBERS[n].name))
            return false;
    return kv || state;
}

static void check_printed(const char *id, const struct kva_plan *plan, const json_t *printed)
{
    bool found = false;
    for (size_t p = 0; p < plan->n_prints && !found; p++)
        found = is_of(printed, &plan->prints[p]);
    char *text = json_dumps(printed, 0);
    if (!found)
        for (size_t p = 0; p < plan->n_prints; p++)
            fprintf(stderr, "%s: %s\n", id, plan->prints[p].text);
    ck_assert_msg(found, "%s: no line of the plan has %s", id, text);
    free(text);
}

static void check_line(const char *id, const struct kva_plan *plan, const char *line)
{
    bool found = false;
    for (size_t p = 0; p < plan->n_prints && !found; p++)
        found = strcmp(plan->prints[p].text, line) == 0;
    if (!found)
        for (size_t p = 0; p < plan->n_prints; p++)
            fprintf(stderr, "%s: %s\n", id, plan->prints[p].text);
    ck_assert_msg(found, "%s: the plan does not print %s", id, line);
}

static void check_record(struct kva_atlas *atlas, const json_t *record, const char *header)
{
    const char *id = json_string_value(json_object_get(record, "id")), *flag;
    struct kva_deployment deployment = {.engine = json_string_value(json_object_get(record, "engine"))};
    struct kva_model *model = open_model(atlas, record, header);
    struct kva_error error = {0};
    struct kva_plan *plan;
    json_t *value;
    char text[1024];
    json_object_foreach(json_object_get(record, "flags"), flag, value)
        ck_assert_msg(kva_deployment_set(&deployment, flag, json_string_value(value), &error) == KVA_OK, "%s: %s", id,
                      kva_error_line(&error, text, sizeof text));
    ck_assert_msg(kva_plan_make(atlas, model, &deployment, &plan, &error) == KVA_OK, "%s: %s", id,
                  kva_error_line(&error, text, sizeof text));
    const json_t *printed = json_object_get(record, "printed"), *lines = json_object_get(record, "lines");
    ck_assert_uint_gt(json_array_size(printed) + json_array_size(lines), 0);
    for (size_t p = 0; p < json_array_size(printed); p++)
        check_printed(id, plan, json_array_get(printed, p));
    for (size_t l = 0; l < json_array_size(lines); l++)
        check_line(id, plan, json_string_value(json_array_get(lines, l)));
    kva_plan_free(plan);
    kva_model_close(model);
}

START_TEST(logs_are_reproduced)
{
    struct kva_atlas *atlas;
    char header[] = "/tmp/kva-llamacpp-log-XXXXXX";
    size_t reproduced = 0, skipped = 0;
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    int handle = mkstemp(header);
    ck_assert_int_ge(handle, 0);
    close(handle);
    FILE *file = jsonl_open(TEST_DATA "/engines/llamacpp-logs.jsonl");
    for (json_t *record; (record = jsonl_next(file)) != NULL; json_decref(record)) {
        if (json_object_get(record, "skipped") != NULL)
            skipped++;
        else {
            check_record(atlas, record, header);
            reproduced++;
        }
    }
    fclose(file);
    unlink(header);
    kva_atlas_close(atlas);
    ck_assert_uint_eq(reproduced, 40);
    ck_assert_uint_eq(skipped, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("logs of llama.cpp");
    TCase *tests = tcase_create("logs of llama.cpp");
    tcase_add_test(tests, logs_are_reproduced);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
