// A GGUF header plans as the config.json of the same model: gguf-headers.jsonl holds, for the catalogue's models, the
// keys that llama.cpp's conversion/ would write from their configs. (Made by tools/gguf_headers.py.)
#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <unistd.h>

#include "gguf_meta.h"
#include "jsonl.h"
#include "model/arch.h"
#include "unit.h"

static void compare(const char *name, const struct kva_model *gguf, const struct kva_model *config)
{
    static const uint64_t CONTEXTS[] = {1, 4096, 8192};
    char of_gguf[1024], of_config[1024];
    kva_model_pattern(gguf, of_gguf, sizeof of_gguf);
    kva_model_pattern(config, of_config, sizeof of_config);
    ck_assert_msg(strcmp(of_gguf, of_config) == 0, "%s: %s, its config.json gives %s", name, of_gguf, of_config);
    ck_assert_msg(gguf->context_limit == config->context_limit || config->context_limit == 0,
                  "%s: a limit of %llu tokens, its config.json gives %llu", name,
                  (unsigned long long)gguf->context_limit, (unsigned long long)config->context_limit);
    for (size_t c = 0; c < sizeof CONTEXTS / sizeof *CONTEXTS; c++) {
        uint64_t a = unit_need(gguf, CONTEXTS[c]), b = unit_need(config, CONTEXTS[c]);
        ck_assert_msg(a == b, "%s: needs %llu bytes at %llu tokens, its config.json gives %llu", name,
                      (unsigned long long)a, (unsigned long long)CONTEXTS[c], (unsigned long long)b);
    }
    for (size_t i = 0; i < gguf->n_warnings; i++)
        ck_assert_msg(strstr(gguf->warnings[i], "looks as if") == NULL && strstr(gguf->warnings[i], "not one") == NULL,
                      "%s: %s", name, gguf->warnings[i]);
}

START_TEST(a_header_plans_as_the_config_of_the_same_model)
{
    struct kva_atlas *atlas;
    char path[64] = "/tmp/kva-gguf-XXXXXX";
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
    int handle = mkstemp(path);
    ck_assert_int_ge(handle, 0);
    close(handle);
    FILE *file = jsonl_open(TEST_DATA "/gguf-headers.jsonl");
    size_t checked = 0;
    for (json_t *record; (record = jsonl_next(file)) != NULL; json_decref(record)) {
        const char *name = json_string_value(json_object_get(record, "model"));
        save_meta(json_object_get(record, "meta"), path);
        struct kva_model *gguf = unit_open(atlas, path, NULL), *config = unit_open(atlas, name, NULL);
        compare(name, gguf, config);
        checked++;
        kva_model_close(gguf);
        kva_model_close(config);
    }
    fclose(file);
    unlink(path);
    kva_atlas_close(atlas);
    ck_assert_uint_gt(checked, 80);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf configs");
    TCase *tests = tcase_create("gguf configs");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_header_plans_as_the_config_of_the_same_model);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
