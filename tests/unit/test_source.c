// Where a model comes from: ids and the cache of huggingface_hub (its documentation, "Understand caching", and its
// constants.py), the catalogue, configs in memory.
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/atlas.h"
#include "model/hub.h"
#include "model/source.h"
#include "unit.h"

static struct kva_atlas *atlas;
static char folder[64];

static void set_up(void)
{
    static const char *const NAMES[] = {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unsetenv(NAMES[i]);
    strcpy(folder, "/tmp/kva-source-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("HF_HUB_CACHE", folder, 1);
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
}

static void tear_down(void)
{
    char command[128];
    kva_atlas_close(atlas);
    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

// Makes a file below the folder, and the folders it lies in.
static void make(const char *name, const char *content)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *c = path + strlen(folder) + 1; (c = strchr(c, '/')) != NULL; *c++ = '/') {
        *c = '\0';
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(content, file);
    fclose(file);
}

// ---------------------------------------------------------------- ids

START_TEST(an_id_may_name_a_revision)
{
    struct kva_hub_id id;
    ck_assert(kva_hub_parse("gpt2", &id));
    ck_assert_str_eq(id.repository, "gpt2");
    ck_assert_str_eq(id.revision, "main");
    ck_assert(!id.has_revision);
    ck_assert(kva_hub_parse("Qwen/Qwen2.5-0.5B@refs/pr/7", &id));
    ck_assert_str_eq(id.repository, "Qwen/Qwen2.5-0.5B");
    ck_assert_str_eq(id.revision, "refs/pr/7");
    ck_assert(id.has_revision);
}
END_TEST

START_TEST(what_could_leave_the_cache_is_no_id)
{
    static const char *const BAD[] = {"",       "a/b/c", "/a",      "a/",    "../a",   "a/..", "a/.b",
                                      "a b",    "a%2Fb", "a@",      "@main", "a@../b", "a@/b", "a@b/",
                                      "a@b//c", "a\nb",  "a/b@c d", "a@.b",  "é/b",    "a//b", "a/b@c@d"};
    struct kva_hub_id id;
    char longest[512];
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        ck_assert_msg(!kva_hub_parse(BAD[i], &id), "%s", BAD[i]);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert(!kva_hub_parse(longest, &id));
}
END_TEST

START_TEST(the_cache_lies_where_the_environment_says)
{
    char path[128];
    unsetenv("HF_HUB_CACHE");
    setenv("HOME", "/home/one", 1);
    ck_assert(kva_hub_cache(path, sizeof path));
    ck_assert_str_eq(path, "/home/one/.cache/huggingface/hub");
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    ck_assert(kva_hub_cache(path, sizeof path));
    ck_assert_str_eq(path, "/xdg/huggingface/hub");
    setenv("HF_HOME", "~/hf", 1);
    ck_assert(kva_hub_cache(path, sizeof path));
    ck_assert_str_eq(path, "/home/one/hf/hub");
    setenv("HF_HUB_CACHE", "/hub", 1);
    struct kva_hub_id id;
    ck_assert(kva_hub_parse("org/name", &id));
    ck_assert(kva_hub_folder(&id, path, sizeof path));
    ck_assert_str_eq(path, "/hub/models--org--name");
    ck_assert(!kva_hub_folder(&id, path, 10));
}
END_TEST

// ---------------------------------------------------------------- origins

static void origin_is(const char *name, const char *path, const char *directory)
{
    struct kva_origin origin;
    struct kva_error error = {0};
    const enum kva_status status = kva_origin_find(atlas, name, false, &origin, &error);
    ck_assert_msg(status == KVA_OK, "%s: %s", name, error.text);
    ck_assert_str_eq(origin.path, path);
    ck_assert_int_eq(origin.directory != NULL, directory != NULL);
    if (directory != NULL)
        ck_assert_str_eq(origin.directory, directory);
    kva_origin_free(&origin);
}

static void no_origin(const char *name, const char *says)
{
    struct kva_origin origin;
    struct kva_error error = {0};
    ck_assert_int_eq(kva_origin_find(atlas, name, false, &origin, &error), KVA_BAD_INPUT);
    ck_assert_msg(strstr(error.text, says) != NULL, "%s: %s", name, error.text);
    kva_origin_free(&origin);
}

START_TEST(a_snapshot_of_the_cache_is_a_directory_with_its_weights)
{
    char path[300], directory[256];
    make("models--org--name/refs/main", "0a1b\n");
    make("models--org--name/snapshots/0a1b/config.json", "{}");
    snprintf(directory, sizeof directory, "%s/models--org--name/snapshots/0a1b", folder);
    snprintf(path, sizeof path, "%s/config.json", directory);
    origin_is("org/name", path, directory);
    origin_is("org/name@main", path, directory);
    origin_is("org/name@0a1b", path, directory);
    origin_is(directory, path, directory);
    origin_is(path, path, NULL);
    no_origin("org/name@main2", "has neither refs/main2 nor snapshots/main2");
    no_origin("org/other", "the Hugging Face cache has no ");
}
END_TEST

START_TEST(a_directory_with_one_gguf_model_is_that_model)
{
    char path[256];
    make("one/model-Q4_K_M.gguf", "GGUF");
    snprintf(path, sizeof path, "%s/one", folder);
    char file[300];
    snprintf(file, sizeof file, "%s/model-Q4_K_M.gguf", path);
    origin_is(path, file, path);
    make("split/m-00002-of-00002.gguf", "GGUF");
    make("split/m-00001-of-00002.gguf", "GGUF");
    snprintf(path, sizeof path, "%s/split", folder);
    snprintf(file, sizeof file, "%s/m-00001-of-00002.gguf", path);
    origin_is(path, file, path);
}
END_TEST

START_TEST(a_catalogue_name_needs_no_cache)
{
    origin_is("openai/gpt-oss-20b", "data/models/openai/gpt-oss-20b/config.json", NULL);
    no_origin("OpenAI/GPT-OSS-20b", "did you mean openai/gpt-oss-20b?");
    no_origin("openai/gpt-oss-20b@main", "the Hugging Face cache has no ");
}
END_TEST

// ---------------------------------------------------------------- configs in memory

static const char SMALL[] = "{\"model_type\": \"llama\", \"num_hidden_layers\": 3, \"hidden_size\": 1024, "
                            "\"num_attention_heads\": 8, \"torch_dtype\": \"bfloat16\"}";

static struct kva_model *from_json(const char *json, const struct kva_model_options *options)
{
    struct kva_model *model;
    struct kva_error error = {0};
    const enum kva_status status = kva_model_from_json(atlas, json, strlen(json), "the id", options, &model, &error);
    ck_assert_msg(status == KVA_OK, "%s: %s", error.key, error.text);
    return model;
}

START_TEST(a_config_in_memory_is_a_model)
{
    struct kva_model *model = from_json(SMALL, NULL);
    ck_assert_str_eq(model->id, "the id");
    ck_assert_str_eq(model->source, "the id");
    ck_assert_uint_eq(model->n_layers, 3);
    kva_model_close(model);
}
END_TEST

START_TEST(a_wrapped_config_names_its_id)
{
    static const struct {
        const char *id, *read_as;
    } IDS[] = {{"\"x/y\"", "x/y"}, {"12", "12"}, {"null", "the id"}, {"[1]", "the id"}};
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"id\": %s, \"config\": %s}", IDS[i].id, SMALL);
        struct kva_model *model = from_json(json, NULL);
        ck_assert_str_eq(model->id, IDS[i].read_as);
        ck_assert_uint_eq(model->n_layers, 3);
        kva_model_close(model);
    }
}
END_TEST

// The list of tensors is only a list: what it adds up to is known without it.
START_TEST(weights_are_the_same_without_the_list_of_tensors)
{
    static const char *const NAMES[] = {"microsoft/Phi-4-mini-flash-reasoning", "google/gemma-3-27b-it",
                                        "openai/gpt-oss-20b", "Qwen/Qwen3-0.6B"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const struct kva_model_options options = {.no_tensors = true};
        struct kva_model *with, *without;
        ck_assert_int_eq(kva_model_open(atlas, NAMES[i], NULL, &with, NULL), KVA_OK);
        ck_assert_int_eq(kva_model_open(atlas, NAMES[i], &options, &without, NULL), KVA_OK);
        ck_assert_uint_gt(with->n_tensors, 0);
        ck_assert_uint_eq(without->n_tensors, 0);
        ck_assert_uint_eq(with->parameters, without->parameters);
        ck_assert_uint_eq(with->weight_bytes, without->weight_bytes);
        ck_assert_uint_eq(with->n_weight_classes, without->n_weight_classes);
        for (size_t c = 0; c < with->n_weight_classes; c++)
            for (size_t o = 0; o < without->n_weight_classes; o++)
                if (strcmp(with->weight_classes[c].name, without->weight_classes[o].name) == 0) {
                    ck_assert_uint_eq(with->weight_classes[c].tensors, without->weight_classes[o].tensors);
                    ck_assert_uint_eq(with->weight_classes[c].bytes, without->weight_classes[o].bytes);
                }
        kva_model_close(with);
        kva_model_close(without);
    }
}
END_TEST

// ---------------------------------------------------------------- the catalogue

START_TEST(the_catalogue_is_in_order_and_says_where_it_comes_from)
{
    struct kva_catalogue *catalogue;
    ck_assert_int_eq(kva_catalogue_open(atlas, NULL, &catalogue, NULL), KVA_OK);
    ck_assert_uint_ge(catalogue->n_entries, 109);
    for (size_t i = 0; i < catalogue->n_entries; i++) {
        const struct kva_catalogue_entry *entry = &catalogue->entries[i];
        ck_assert_msg(entry->source[0] != '\0' && entry->fidelity[0] != '\0', "%s has no source.yaml", entry->id);
        ck_assert(i == 0 || strcasecmp(catalogue->entries[i - 1].id, entry->id) < 0);
    }
    kva_catalogue_close(catalogue);
}
END_TEST

START_TEST(a_query_asks_for_all_that_it_says)
{
    static const struct {
        struct kva_catalogue_query query;
        size_t n;
    } QUERIES[] = {{{.text = "PHI-4-mini-i"}, 1},
                   {{.text = "phi4FLASH"}, 1},
                   {{.model_type = "GEMMA2", .text = "2b"}, 1},
                   {{.family = "yoco"}, 1},
                   {{.family = "yoco", .model_type = "llama"}, 0},
                   {{.text = "no such model"}, 0}};
    for (size_t i = 0; i < sizeof QUERIES / sizeof *QUERIES; i++) {
        struct kva_catalogue *catalogue;
        ck_assert_int_eq(kva_catalogue_open(atlas, &QUERIES[i].query, &catalogue, NULL), KVA_OK);
        ck_assert_uint_eq(catalogue->n_entries, QUERIES[i].n);
        kva_catalogue_close(catalogue);
    }
}
END_TEST

// Every class that an architecture file names leads to a file that names it.
START_TEST(class_names_lead_to_their_files)
{
    const struct kva_arch *arch;
    ck_assert_int_eq(kva_arch_find(atlas, "Phi4FlashForCausalLM", &arch, NULL), KVA_OK);
    ck_assert_str_eq(arch->model_type, "phi4flash");
    ck_assert_int_eq(kva_arch_find(atlas, "LlamaForCausalLM", &arch, NULL), KVA_OK);
    bool named = false;
    for (unsigned i = 0; i < arch->n_architectures; i++)
        named = named || strcmp(arch->architectures[i], "LlamaForCausalLM") == 0;
    ck_assert(named);
    ck_assert_int_eq(kva_arch_find(atlas, "MartianForCausalLM", &arch, NULL), KVA_OK);
    ck_assert_ptr_null(arch);
    ck_assert_int_eq(kva_arch_find(atlas, "", &arch, NULL), KVA_OK);
    ck_assert_ptr_null(arch);
}
END_TEST

// A reference is found by its line alone, and an id that no line has makes the whole file be read and checked.
START_TEST(references_are_found_by_their_ids)
{
    const struct kva_reference *reference, *again;
    ck_assert_int_eq(kva_atlas_reference(atlas, "tf-gemma3", &reference, NULL), KVA_OK);
    ck_assert_ptr_nonnull(reference);
    ck_assert_str_eq(reference->id, "tf-gemma3");
    ck_assert_ptr_nonnull(strstr(reference->url, "https://"));
    ck_assert_int_eq(kva_atlas_reference(atlas, "tf-gemma3", &again, NULL), KVA_OK);
    ck_assert_ptr_eq(reference, again);
    struct kva_error error = {0};
    ck_assert_msg(kva_atlas_reference(atlas, "no-such-id", &reference, &error) == KVA_OK, "%s", error.text);
    ck_assert_ptr_null(reference);
    ck_assert_int_eq(kva_atlas_reference(atlas, "tf-llama", &reference, NULL), KVA_OK);
    ck_assert_str_eq(reference->id, "tf-llama");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source");
    TCase *tests = tcase_create("source");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, an_id_may_name_a_revision);
    tcase_add_test(tests, what_could_leave_the_cache_is_no_id);
    tcase_add_test(tests, the_cache_lies_where_the_environment_says);
    tcase_add_test(tests, a_snapshot_of_the_cache_is_a_directory_with_its_weights);
    tcase_add_test(tests, a_directory_with_one_gguf_model_is_that_model);
    tcase_add_test(tests, a_catalogue_name_needs_no_cache);
    tcase_add_test(tests, a_config_in_memory_is_a_model);
    tcase_add_test(tests, a_wrapped_config_names_its_id);
    tcase_add_test(tests, weights_are_the_same_without_the_list_of_tensors);
    tcase_add_test(tests, the_catalogue_is_in_order_and_says_where_it_comes_from);
    tcase_add_test(tests, a_query_asks_for_all_that_it_says);
    tcase_add_test(tests, class_names_lead_to_their_files);
    tcase_add_test(tests, references_are_found_by_their_ids);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
