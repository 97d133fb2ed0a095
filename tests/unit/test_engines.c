// The room of engines beside the engines: their data files, versions, flags, cache types and line templates.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/engine.h"
#include "unit.h"

#define DATA TEST_DATA "/../../data"

// ---------------------------------------------------------------- data files

START_TEST(test_every_file_is_sound)
{
    struct kva_atlas *atlas;
    ck_assert_int_eq(kva_atlas_open(DATA, &atlas, NULL), KVA_OK);
    size_t n = 0;
    for (; kva_engine_name(n) != NULL; n++) {
        struct kva_error error = {0};
        struct kva_engine_info *info;
        char line[1024];
        const enum kva_status status = kva_engine_info_open(atlas, kva_engine_name(n), &info, &error);
        ck_assert_msg(status == KVA_OK, "%s: %s", kva_engine_name(n), kva_error_line(&error, line, sizeof line));
        kva_engine_info_free(info);
    }
    ck_assert_uint_ge(n, 8);  // six engines and two policies
    kva_atlas_close(atlas);
}
END_TEST

// A data directory that holds the repository's references and one engine's file, changed.
static void write_text(const char *directory, const char *name, const char *bytes, size_t length)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    ck_assert_int_eq(kva_file_write(path, bytes, length, NULL), KVA_OK);
}

static void copy(const char *directory, const char *name, const char *from, const char *to)
{
    char path[512];
    char *bytes;
    size_t length;
    struct kva_text text = {0};
    snprintf(path, sizeof path, DATA "/%s", name);
    ck_assert_int_eq(kva_file_read(path, 16 << 20, &bytes, &length, NULL), KVA_OK);
    const char *at = from != NULL ? strstr(bytes, from) : NULL;
    ck_assert_msg(from == NULL || at != NULL, "%s does not hold '%s'", name, from);
    if (at != NULL) {
        kva_text_add(&text, bytes, (size_t)(at - bytes));
        kva_text_printf(&text, "%s%s", to, at + strlen(from));
        write_text(directory, name, text.bytes, text.length);
    } else
        write_text(directory, name, bytes, length);
    kva_text_free(&text);
    free(bytes);
}

// With `from` replaced by `to`, the file of sglang is refused, and the complaint says `part`.
static void refuse_file(const char *from, const char *to, const char *part)
{
    char directory[] = "/tmp/kvatlas-engines-XXXXXX", path[512], line[1024];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/engines", directory);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    copy(directory, "references.yaml", NULL, NULL);
    copy(directory, "engines/sglang.yaml", from, to);
    struct kva_atlas *atlas;
    struct kva_engine_info *info;
    struct kva_error error = {0};
    ck_assert_int_eq(kva_atlas_open(directory, &atlas, NULL), KVA_OK);
    ck_assert_int_eq(kva_engine_info_open(atlas, "sglang", &info, &error), KVA_BAD_INPUT);
    kva_error_line(&error, line, sizeof line);
    ck_assert_msg(strstr(line, part) != NULL && strstr(line, "sglang.yaml") != NULL, "'%s': %s", part, line);
    kva_atlas_close(atlas);
    snprintf(path, sizeof path, "%s/engines/sglang.yaml", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/references.yaml", directory);
    unlink(path);
    snprintf(path, sizeof path, "%s/engines", directory);
    rmdir(path);
    rmdir(directory);
}

START_TEST(test_broken_files_are_refused)
{
    refuse_file("id: sglang", "id: vllm", "is not the name of the file");
    refuse_file("summary:", "sumary:", "sumary");
    refuse_file("{version: \"0.4.6\"", "{version: \"four\"", "is not a version");
    refuse_file("{version: \"0.4.6\"", "{version: \"9.9.9\"", "does not come after");
    refuse_file("references: [sglang-0.4.6]", "references: [nowhere]", "is not the id of a reference");
    refuse_file("    values:\n      - {", "    values:\n      - {since: \"0.5.23\", ", "has no value for version");
    refuse_file("lines:\n  - {id: ",
                "lines:\n  - {id: x, until: \"0.4.6\", text: \"{tokens\", references: [sglang-0.4.6]}\n  - {id: ",
                "placeholder");
    refuse_file("rules:\n",
                "rules:\n  - {name: x, match: [any], since: \"0.0.1\", value: f16, references: [sglang-0.4.6]}\n",
                "is not one of this file's versions");
}
END_TEST

// ---------------------------------------------------------------- versions

START_TEST(test_versions_are_ordered)
{
    static const char *const ORDERED[] = {"b5415",  "b8390",    "v0.4.0", "0.4.9",    "0.4.9.post6", "0.4.10",
                                          "0.10.1", "0.10.1.1", "1.2.0",  "1.3.0rc9", "1.3.0rc29",   "1.3.0"};
    const size_t n = sizeof ORDERED / sizeof *ORDERED;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            bool comparable;
            const int order = kva_version_compare(ORDERED[i], ORDERED[j], &comparable);
            ck_assert_msg(comparable && (order > 0) == (i > j) && (order < 0) == (i < j), "%s, %s: %d", ORDERED[i],
                          ORDERED[j], order);
        }
    static const char *const NONE[] = {"", "x", "1.", "1.2.3.4.5", "1.2-beta", "v", "b", "-1", "1..2"};
    for (size_t i = 0; i < sizeof NONE / sizeof *NONE; i++) {
        bool comparable;
        kva_version_compare(NONE[i], "1.0", &comparable);
        ck_assert_msg(!comparable, "%s", NONE[i]);
    }
}
END_TEST

static struct kva_atlas *atlas;

static enum kva_status open_engine(const char *name, bool nearest, struct kva_call *call, struct kva_error *error)
{
    static struct kva_deployment deployment;
    *call = (struct kva_call){.atlas = atlas, .deployment = &deployment, .arena = kva_arena_new(), .error = error};
    return kva_engine_open(atlas, name, nearest, call);
}

static void opens(const char *name, bool nearest, const char *version, const char *note)
{
    struct kva_call call;
    struct kva_error error = {0};
    ck_assert_msg(open_engine(name, nearest, &call, &error) == KVA_OK, "%s: %s", name, error.text);
    ck_assert_str_eq(call.version->version, version);
    ck_assert_uint_eq(call.assumptions.n, note != NULL);
    ck_assert(note == NULL || strstr(call.assumptions.text[0], note) != NULL);
    kva_arena_free(call.arena);
}

static void refuses(const char *name, const char *part)
{
    struct kva_call call;
    struct kva_error error = {0};
    ck_assert_int_eq(open_engine(name, false, &call, &error), KVA_REFUSED);
    ck_assert_msg(strstr(error.text, part) != NULL, "%s: %s", name, error.text);
    kva_arena_free(call.arena);
}

START_TEST(test_versions_that_people_ask_for)
{
    opens("vllm@0.19.1", false, "0.19.1", NULL);
    opens("vllm@v0.19.1", false, "0.19.1", NULL);
    opens("vllm", false, "0.33.0", "newest");
    opens("vllm@latest", false, "0.33.0", "newest");
    opens("vllm@0.99.0", true, "0.33.0", "nearest");
    opens("vllm@0.6.0", true, "0.10.0", "nearest");
    opens("LlamaCPP@b8390", false, "b8390", NULL);
    opens("llama.cpp@b8000", true, "b7698", "--nearest");
    refuses("vllm@0.99.0", "0.10.0 to 0.33.0");
    refuses("vllm@0.6.0", "older");
    refuses("vllm@soon", "is not a version");
    refuses("llama.cpp@b8000", "b7698");
    refuses("exact@1.0", "no versions");
    refuses("tgi", "vllm");
    refuses("@1", "not known");
}
END_TEST

// ---------------------------------------------------------------- flags

START_TEST(test_flags_as_every_engines_users_type_them)
{
    struct kva_deployment d = {0};
    static const char *const SET[][2] = {
        {"--max-model-len", "32k"},
        {"max_num_seqs", "64"},
        {"--tensor-parallel-size", "8"},
        {"--kv-cache-dtype", "fp8"},
        {"--gpu-memory-utilization", ".9"},
        {"kv_cache_memory_bytes", "4GiB"},
        {"--disable-radix-cache", NULL},
        {"--no-enable-prefix-caching", NULL},
        {"-fa", "off"},
        {"--swa-full", NULL},
        {"-ub", "1024"},
        {"--page-size", "64"},
    };
    for (size_t i = 0; i < sizeof SET / sizeof *SET; i++)
        ck_assert_msg(kva_deployment_set(&d, SET[i][0], SET[i][1], NULL) == KVA_OK, "%s", SET[i][0]);
    ck_assert(d.context == 32768 && d.max_sequences == 64 && d.tp == 8 && d.kv_bytes == UINT64_C(4) << 30);
    ck_assert(d.prefix_caching == KVA_OFF && d.flash_attention == KVA_OFF && d.swa_full == KVA_ON);
    ck_assert(d.ubatch == 1024 && d.block_size == 64 && strcmp(d.kv_type, "fp8") == 0);
    ck_assert(kva_deployment_set(&d, "--max-model-len", "auto", NULL) == KVA_OK && d.auto_context);
    static const char *const BAD[][2] = {{"--max-model-len", "-5"},
                                         {"--tp", "0"},
                                         {"--gpu-memory-utilization", "nan"},
                                         {"--gpu-memory-utilization", "0"},
                                         {"--kv-bytes", "1e30"},
                                         {"--kv-bytes", "-1"},
                                         {"--swa-full", "maybe"},
                                         {"--tp", NULL},
                                         {"--no-tp", NULL},
                                         {"--frobnicate", "1"},
                                         {"--kv-dtype", ""}};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        ck_assert_msg(kva_deployment_set(&d, BAD[i][0], BAD[i][1], NULL) == KVA_BAD_INPUT, "%s %s", BAD[i][0],
                      BAD[i][1]);
}
END_TEST

// What an engine does not have is nothing to it, and is said.
// A blank takes the other deployment's value, of whatever type the field is.
START_TEST(test_blanks_are_filled_from_another_deployment)
{
    static const char *const SAID[][2] = {
        {"--context", "4096"},  {"--sequences", "2"},          {"--quantized-kv-start", "5000"},
        {"--kv-dtype", "fp8"},  {"--mamba-ssm-dtype", "bf16"}, {"--memory-fraction", "0.5"},
        {"--kv-bytes", "1GiB"}, {"--swa-full", "on"},          {"--nearest", NULL},
    };
    struct kva_deployment from = {0}, to = {0};
    for (size_t s = 0; s < sizeof SAID / sizeof *SAID; s++)
        ck_assert_int_eq(kva_deployment_set(&from, SAID[s][0], SAID[s][1], NULL), KVA_OK);
    kva_deployment_fill(&to, &from, NULL, NULL);
    for (size_t s = 0; s < sizeof SAID / sizeof *SAID; s++)
        ck_assert_msg(kva_deployment_says(&to, SAID[s][0]), "%s stayed blank", SAID[s][0]);
    ck_assert_uint_eq(to.quantized_kv_start, 5000);
}
END_TEST

START_TEST(test_settings_of_other_engines_are_said)
{
    struct kva_model *model = unit_open(atlas, "meta-llama/Llama-3.1-8B-Instruct", NULL);
    struct kva_deployment d = {.engine = "vllm@0.33.0", .context = 8192};
    ck_assert_int_eq(kva_deployment_set(&d, "--kv-bits", "4", NULL), KVA_OK);
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(atlas, model, &d, &plan, NULL), KVA_OK);
    bool said = false;
    for (size_t a = 0; a < plan->n_assumed; a++)
        said = said || strcmp(plan->assumed[a], "--kv-bits is no setting of vLLM: not used") == 0;
    ck_assert(said);
    kva_plan_free(plan);
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- formats and lines

// ggml-common.h: blocks of 32 elements of 34 (q8_0), 18 (q4_0) and 22 (q5_0) bytes; vLLM's nvfp4: D / 2 + D / 16; int8
// with a float32 scale for each vector; MLX, groups of 64 with a scale and a bias of two bytes: 136 and 72 for 128.
START_TEST(test_bytes_of_a_vector)
{
    static const struct {
        struct kva_side_format format;
        uint64_t elements, bytes;
    } CASES[] = {
        {{.bits = 16}, 128, 256},
        {{.bits = 8, .group = 32, .group_bytes = 2}, 128, 136},
        {{.bits = 4, .group = 32, .group_bytes = 2}, 128, 72},
        {{.bits = 5, .group = 32, .group_bytes = 2}, 32, 22},
        {{.bits = 4, .group = 16, .group_bytes = 1}, 128, 72},
        {{.bits = 8, .vector_bytes = 4}, 256, 260},
        {{.bits = 8, .group = 64, .group_bytes = 4}, 128, 136},
        {{.bits = 4, .group = 64, .group_bytes = 4}, 128, 72},
        {{.bits = 8, .vector_bytes = 4}, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint64_t bytes;
        ck_assert(kva_side_bytes(&CASES[i].format, CASES[i].elements, &bytes));
        ck_assert_uint_eq(bytes, CASES[i].bytes);
    }
    uint64_t bytes;
    ck_assert(!kva_side_bytes(&CASES[0].format, UINT64_MAX, &bytes));
}
END_TEST

// vLLM's format_gib is Python's str(round(x, 2)): "4.0", "13.66", "16.0".
START_TEST(test_lines_are_rendered_as_engines_print)
{
    const struct kva_quantity quantities[] = {kva_count_of("tokens", 1048576), kva_real_of("a", 4),
                                              kva_real_of("b", 13.66), kva_text_of("type", "f16")};
    static const char *const CASES[][2] = {
        {"GPU KV cache size: {tokens:,} tokens", "GPU KV cache size: 1,048,576 tokens"},
        {"{a:gib} {b:gib}", "4.0 13.66"},
        {"({type:s}): {b:7.2f} MiB, {tokens:d}", "(f16):   13.66 MiB, 1048576"},
        {"no placeholder", "no placeholder"},
    };
    const char *missing;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct kva_text out = {0};
        ck_assert(kva_line_is_well_formed(CASES[i][0]));
        ck_assert(kva_line_render(CASES[i][0], quantities, 4, &out, &missing));
        ck_assert_str_eq(out.bytes, CASES[i][1]);
        kva_text_free(&out);
    }
    struct kva_text out = {0};
    ck_assert(!kva_line_render("{blocks:d}", quantities, 4, &out, &missing));
    kva_text_free(&out);
    ck_assert(!kva_line_is_well_formed("{tokens:") && !kva_line_is_well_formed("{tokens:%n}") &&
              !kva_line_is_well_formed("{tokens:99999d}"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engines");
    TCase *files = tcase_create("files"), *rest = tcase_create("rest");
    tcase_add_test(files, test_every_file_is_sound);
    tcase_add_test(files, test_broken_files_are_refused);
    tcase_add_test(rest, test_versions_are_ordered);
    tcase_add_test(rest, test_versions_that_people_ask_for);
    tcase_add_test(rest, test_flags_as_every_engines_users_type_them);
    tcase_add_test(rest, test_blanks_are_filled_from_another_deployment);
    tcase_add_test(rest, test_settings_of_other_engines_are_said);
    tcase_add_test(rest, test_bytes_of_a_vector);
    tcase_add_test(rest, test_lines_are_rendered_as_engines_print);
    suite_add_tcase(suite, files);
    suite_add_tcase(suite, rest);
    return unit_run_on(suite, &atlas);
}
