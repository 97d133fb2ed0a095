// GGUF headers: what is read, what is refused, and that a header plans as the config.json of the same model. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#include <check.h>
#include <stdio.h>
#include <unistd.h>

#include "gguf_writer.h"
#include "model/ggml_types.h"
#include "model/gguf_arch.h"
#include "unit.h"

static struct kva_atlas *atlas;
static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/kva-gguf-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(kva_atlas_open(NULL, &atlas, NULL), KVA_OK);
}

static void teardown(void)
{
    static const char *const NAMES[] = {"m.gguf", "plain", "m-00001-of-00002.gguf", "m-00002-of-00002.gguf"};
    char path[256];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    rmdir(folder);
    kva_atlas_close(atlas);
}

// Writes the header to a file that is as long as one with the payload, but takes no room on the disk.
static const char *save(struct writer *w, const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(w->bytes, 1, w->length, file), w->length);
    fclose(file);
    ck_assert_int_eq(truncate(path, (off_t)whole(w)), 0);
    free(w->bytes);
    w->bytes = NULL;
    return path;
}

static void has_pattern(const struct kva_model *model, const char *expected)
{
    char pattern[512];
    ck_assert_str_eq(kva_model_pattern(model, pattern, sizeof pattern), expected);
}

// ---------------------------------------------------------------- what is read

START_TEST(a_llama_header_is_a_model)
{
    struct writer w;
    for (uint32_t version = 2; version <= 3; version++) {
        start(&w, version);
        put_llama(&w, 32);
        struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
        has_pattern(model, "F32");
        ck_assert_str_eq(model->model_type, "llama");
        ck_assert_uint_eq(model->context_limit, 8192);
        ck_assert_int_eq(model->dtype, KVA_DTYPE_NONE);
        ck_assert_uint_eq(model->layers[0].caches[0].kv_heads, 8);
        ck_assert_uint_eq(model->layers[0].caches[0].k_dim, 128);  // 4096 / 32, as llama.cpp derives it
        kva_model_close(model);
    }
}
END_TEST

START_TEST(a_file_is_known_by_its_magic_too)
{
    struct writer w;
    start(&w, 3);
    put_llama(&w, 4);
    struct kva_model *model = unit_open(atlas, save(&w, "plain"), NULL);
    has_pattern(model, "F4");
    kva_model_close(model);
}
END_TEST

START_TEST(the_file_type_is_the_dtype_where_it_names_one)
{
    static const struct {
        uint32_t file_type;
        enum kva_dtype dtype;
    } CASES[] = {{0, KVA_F32}, {1, KVA_F16}, {32, KVA_BF16}, {15, KVA_DTYPE_NONE}};  // 15: Q4_K_M
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct writer w;
        start(&w, 3);
        put_llama(&w, 4);
        put_u32(&w, "general.file_type", CASES[i].file_type);
        struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
        ck_assert_int_eq(model->dtype, CASES[i].dtype);
        kva_model_close(model);
    }
}
END_TEST

START_TEST(weights_are_the_sum_of_the_tensor_infos)
{
    // Q4_K: 144 bytes for 256 elements; Q6_K: 210; F32: 4 for 1 (ggml-common.h)
    const uint64_t embedding[] = {4096, 32000}, q[] = {4096, 4096}, norm[] = {4096};
    struct writer w;
    start(&w, 3);
    put_llama(&w, 1);
    put_tensor(&w, "token_embd.weight", 12, 4096ull * 32000 / 256 * 144, 2, embedding);
    put_tensor(&w, "blk.0.attn_q.weight", 14, 4096ull * 4096 / 256 * 210, 2, q);
    put_tensor(&w, "blk.0.attn_norm.weight", 0, 4096 * 4, 1, norm);
    struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
    ck_assert_uint_eq(model->weight_bytes, 73728000 + 13762560 + 16384);
    ck_assert_uint_eq(model->parameters, 131072000 + 16777216 + 4096);
    ck_assert_str_eq(model->weight_source, "GGUF tensor infos");
    ck_assert_uint_eq(model->n_weight_classes, 3);
    kva_model_close(model);
}
END_TEST

START_TEST(a_type_that_is_not_known_leaves_the_caches_known)
{
    const uint64_t dims[] = {4096};
    struct writer w;
    start(&w, 3);
    put_llama(&w, 2);
    put_tensor(&w, "output_norm.weight", 99, 4096, 1, dims);
    struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
    has_pattern(model, "F2");
    ck_assert_uint_eq(model->weight_bytes, KVA_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "ggml type 99"));
    kva_model_close(model);
}
END_TEST

// gguf-py gguf/constants.py, GGML_QUANT_SIZES; Q8_1 from ggml-common.h, where a static_assert says 36
START_TEST(types_have_the_sizes_of_ggml)
{
    static const struct {
        uint32_t type, elements, bytes;
    } CASES[] = {{0, 1, 4},      {1, 1, 2},      {2, 32, 18},   {3, 32, 20},    {6, 32, 22},    {7, 32, 24},
                 {8, 32, 34},    {9, 32, 36},    {10, 256, 84}, {11, 256, 110}, {12, 256, 144}, {13, 256, 176},
                 {14, 256, 210}, {15, 256, 292}, {16, 256, 66}, {17, 256, 74},  {18, 256, 98},  {19, 256, 50},
                 {20, 32, 18},   {21, 256, 110}, {22, 256, 82}, {23, 256, 136}, {24, 1, 1},     {25, 1, 2},
                 {26, 1, 4},     {27, 1, 8},     {28, 1, 8},    {29, 256, 56},  {30, 1, 2},     {34, 256, 54},
                 {35, 256, 66},  {39, 32, 17},   {40, 64, 36},  {41, 128, 18}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct kva_ggml_type *type = kva_ggml_type(CASES[i].type);
        ck_assert_ptr_nonnull(type);
        ck_assert_uint_eq(type->elements, CASES[i].elements);
        ck_assert_uint_eq(type->bytes, CASES[i].bytes);
    }
    ck_assert_ptr_null(kva_ggml_type(4));
    ck_assert_ptr_null(kva_ggml_type(1000));
}
END_TEST

START_TEST(a_large_tokenizer_is_stepped_over)
{
    struct writer w;
    start(&w, 3);
    put_array(&w, "tokenizer.ggml.tokens", KVA_GGUF_TEXT, 300000);
    for (int i = 0; i < 300000; i++)
        put_text(&w, "\xe2\x96\x81token");
    put_array(&w, "tokenizer.ggml.scores", KVA_GGUF_F32, 300000);
    for (int i = 0; i < 300000; i++)
        put_number(&w, 0, 4);
    put_llama(&w, 2);
    struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
    has_pattern(model, "F2");
    ck_assert_uint_eq(kva_model_value(model, "vocab")->count, 300000);
    kva_model_close(model);
}
END_TEST

// ---------------------------------------------------------------- split models

static void write_split(unsigned number, unsigned count, unsigned tensors_stated)
{
    const uint64_t dims[] = {4096};
    char name[64], tensor[64];
    struct writer w;
    start(&w, 3);
    if (number == 1)
        put_llama(&w, 2);
    put_key(&w, "split.no", KVA_GGUF_U16);
    put_number(&w, number - 1, 2);
    put_key(&w, "split.count", KVA_GGUF_U16);
    put_number(&w, count, 2);
    put_key(&w, "split.tensors.count", KVA_GGUF_I32);
    put_number(&w, tensors_stated, 4);
    snprintf(tensor, sizeof tensor, "blk.%u.attn_norm.weight", number);
    put_tensor(&w, tensor, 1, 8192, 1, dims);
    snprintf(name, sizeof name, "m-%05u-of-00002.gguf", number);
    save(&w, name);
}

static const char *split_path(unsigned number)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/m-%05u-of-00002.gguf", folder, number);
    return path;
}

START_TEST(the_files_of_a_split_model_are_joined)
{
    write_split(1, 2, 2);
    write_split(2, 2, 2);
    for (unsigned number = 1; number <= 2; number++) {  // whichever is named
        struct kva_model *model = unit_open(atlas, split_path(number), NULL);
        has_pattern(model, "F2");
        ck_assert_uint_eq(model->weight_bytes, 2 * 8192);
        kva_model_close(model);
    }
}
END_TEST

START_TEST(without_its_other_files_the_caches_are_known_and_the_weights_are_not)
{
    write_split(1, 2, 2);
    struct kva_model *model = unit_open(atlas, split_path(1), NULL);
    has_pattern(model, "F2");
    ck_assert_uint_eq(model->weight_bytes, KVA_UNKNOWN);
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "only 1 of the 2 files"));
    kva_model_close(model);
}
END_TEST

static void refuses_path(const char *path, enum kva_status expected, const char *key, const char *because)
{
    struct kva_error error = {0};
    struct kva_model *model;
    char line[1024];
    enum kva_status status = kva_model_open(atlas, path, NULL, &model, &error);
    kva_error_line(&error, line, sizeof line);
    ck_assert_msg(status == expected, "status %d, expected %d: %s", status, expected, line);
    ck_assert_msg(strstr(line, because) != NULL, "\"%s\" is not in: %s", because, line);
    ck_assert_ptr_null(strchr(line, '\n'));
    if (key != NULL)
        ck_assert_str_eq(error.key, key);
    ck_assert_ptr_null(model);
}

START_TEST(split_files_must_agree)
{
    write_split(1, 2, 3);
    write_split(2, 2, 3);
    refuses_path(split_path(1), KVA_BAD_INPUT, "split.tensors.count", "is 3, but the files hold 2 tensors");
    write_split(1, 3, 2);
    refuses_path(split_path(1), KVA_BAD_INPUT, "split.count", "is 3, but there are 2 files by their names");
    unlink(split_path(1));
    refuses_path(split_path(2), KVA_BAD_INPUT, NULL, "m-00001-of-00002.gguf: cannot open");
}
END_TEST

// ---------------------------------------------------------------- hostile files

static void refuses(struct writer *w, enum kva_status expected, const char *key, const char *because)
{
    refuses_path(save(w, "m.gguf"), expected, key, because);
}

START_TEST(what_is_no_gguf_is_refused)
{
    struct writer w;
    start(&w, 3);
    w.bytes[0] = 'g';
    refuses(&w, KVA_BAD_INPUT, NULL, "does not begin with \"GGUF\"");
    start(&w, 1);
    refuses(&w, KVA_BAD_INPUT, NULL, "version 1; versions 2 and 3 are read");
    start(&w, 4);
    refuses(&w, KVA_BAD_INPUT, NULL, "version 4; versions 2 and 3 are read");
    start(&w, 3u << 24);
    refuses(&w, KVA_BAD_INPUT, NULL, "big-endian");
    start(&w, 3);
    w.length = 7;
    refuses(&w, KVA_BAD_INPUT, NULL, "only 7 bytes");
    start(&w, 3);
    w.length = 0;
    refuses(&w, KVA_BAD_INPUT, NULL, "only 0 bytes");
}
END_TEST

START_TEST(counts_beyond_the_file_are_refused)
{
    struct writer w;
    start(&w, 3);
    put_llama(&w, 2);
    set_number(&w, w.at_values, 1ull << 60, 8);
    refuses(&w, KVA_BAD_INPUT, NULL, "1152921504606846976 keys");
    start(&w, 3);
    put_llama(&w, 2);
    set_number(&w, w.at_tensors, 1ull << 60, 8);
    refuses(&w, KVA_BAD_INPUT, NULL, "1152921504606846976 tensors");
    start(&w, 3);
    put_llama(&w, 2);
    set_number(&w, w.at_values, 9999, 8);
    refuses(&w, KVA_BAD_INPUT, NULL, "9999 keys, which do not fit");
    start(&w, 3);
    put_llama(&w, 2);
    set_number(&w, w.at_values, 8, 8);  // one more than there are
    refuses(&w, KVA_BAD_INPUT, NULL, "the file ends after");
}
END_TEST

START_TEST(lengths_beyond_the_file_are_refused)
{
    struct writer w;
    start(&w, 3);
    put_key(&w, "general.architecture", KVA_GGUF_TEXT);
    put_number(&w, UINT64_MAX, 8);
    refuses(&w, KVA_BAD_INPUT, "general.architecture", "the file ends");
    start(&w, 3);
    put_llama(&w, 2);
    put_number(&w, UINT64_MAX - 7, 8);  // a key
    set_number(&w, w.at_values, 8, 8);
    put_number(&w, 0, 8);
    refuses(&w, KVA_BAD_INPUT, NULL, "the name of key 7 is 18446744073709551608 bytes long");
    start(&w, 3);
    put_array(&w, "tokenizer.ggml.tokens", KVA_GGUF_TEXT, 1ull << 61);
    refuses(&w, KVA_BAD_INPUT, "tokenizer.ggml.tokens", "2305843009213693952 items");
    start(&w, 3);
    put_array(&w, "a", KVA_GGUF_U64, 1ull << 61);  // times 8 it is 0 in 64 bits
    refuses(&w, KVA_BAD_INPUT, "a", "2305843009213693952 items");
    start(&w, 3);
    put_array(&w, "a", KVA_GGUF_TEXT, 2);
    put_number(&w, 1000, 8);
    put_number(&w, 0, 8);
    refuses(&w, KVA_BAD_INPUT, "a", "the file ends");
}
END_TEST

START_TEST(types_of_values_are_checked)
{
    struct writer w;
    start(&w, 3);
    put_key(&w, "a", 13);
    put_number(&w, 0, 8);
    refuses(&w, KVA_BAD_INPUT, "a", "unknown type 13");
    start(&w, 3);
    put_array(&w, "a", KVA_GGUF_ARRAY, 1);
    put_number(&w, KVA_GGUF_U8, 4);
    put_number(&w, 0, 8);
    refuses(&w, KVA_BAD_INPUT, "a", "array of arrays");
    start(&w, 3);
    put_array(&w, "a", 77, 1);
    put_number(&w, 0, 8);
    refuses(&w, KVA_BAD_INPUT, "a", "unknown type");
    start(&w, 3);
    put_llama(&w, 2);
    put_u32(&w, "llama.block_count", 3);
    refuses(&w, KVA_BAD_INPUT, "llama.block_count", "stands twice");
    start(&w, 3);
    put_text(&w, "");
    put_number(&w, 0, 8);
    set_number(&w, w.at_values, 1, 8);
    refuses(&w, KVA_BAD_INPUT, NULL, "0 bytes long");
    start(&w, 3);
    put_u32(&w, "general.alignment", 24);
    refuses(&w, KVA_BAD_INPUT, "general.alignment", "power of two");
}
END_TEST

START_TEST(tensor_infos_are_checked)
{
    static const struct {
        uint32_t n_dims;
        uint64_t dims[5];
        uint32_t type;
        const char *because;
    } CASES[] = {
        {5, {1, 1, 1, 1, 1}, 0, "has 5 dimensions"},
        {3, {1ull << 32, 1ull << 32, 4}, 0, "63 bits"},
        {2, {1ull << 63, 1}, 0, "63 bits"},
        {1, {1ull << 62}, 0, "64 bits"},
        {1, {4000}, 12, "no whole number of Q4_K blocks of 256"},
        {1, {1ull << 40}, 0, "but the file holds only"},
    };
    struct writer w;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        start(&w, 3);
        put_llama(&w, 2);
        put_tensor(&w, "t", CASES[i].type, 4, CASES[i].n_dims, CASES[i].dims);
        refuses(&w, KVA_BAD_INPUT, "t", CASES[i].because);
    }
    const uint64_t dims[] = {32};
    start(&w, 3);
    put_llama(&w, 2);
    put_tensor(&w, "t", 0, 128, 1, dims);
    put_tensor(&w, "t", 0, 128, 1, dims);
    refuses(&w, KVA_BAD_INPUT, "t", "stands twice");
    start(&w, 3);
    put_llama(&w, 2);
    put_tensor(&w, "t", 0, 96, 1, dims);
    put_tensor(&w, "u", 0, 128, 1, dims);
    refuses(&w, KVA_BAD_INPUT, "u", "overlaps t");
    start(&w, 3);
    put_llama(&w, 2);
    put_tensor(&w, "t", 0, 128, 1, dims);
    set_number(&w, w.length - 8, 1ull << 50, 8);
    refuses(&w, KVA_BAD_INPUT, "t", "from byte 1125899906842624");
    start(&w, 3);
    put_llama(&w, 2);
    put_tensor(&w, "t", 0, 128, 1, dims);
    set_number(&w, w.length - 8, 7, 8);
    refuses(&w, KVA_BAD_INPUT, "t", "no multiple of the alignment");
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    const uint64_t dims[] = {32};
    struct writer w;
    start(&w, 3);
    put_llama(&w, 2);
    put_array(&w, "llama.a", KVA_GGUF_U16, 2);
    put_number(&w, 1, 4);
    put_tensor(&w, "t", 0, 128, 1, dims);
    for (size_t length = 0; length < w.length; length++) {
        struct kva_gguf *gguf;
        struct kva_error error = {0};
        // both a file that is as short, and bytes that stop before the file does
        ck_assert_int_eq(kva_gguf_parse("m", w.bytes, length, length, &gguf, &error), KVA_BAD_INPUT);
        ck_assert_int_eq(kva_gguf_parse("m", w.bytes, length, whole(&w), &gguf, &error), KVA_BAD_INPUT);
        ck_assert_ptr_null(gguf);
    }
    free(w.bytes);
}
END_TEST

START_TEST(models_that_make_no_sense_are_refused)
{
    struct writer w;
    start(&w, 3);
    put_string(&w, "general.architecture", "llama");
    put_u32(&w, "llama.attention.head_count", 32);
    refuses(&w, KVA_BAD_INPUT, "llama.block_count", "is missing");
    start(&w, 3);
    put_llama(&w, 1000000000);
    refuses(&w, KVA_BAD_INPUT, "llama.block_count", "1000000000 layers, 1 to 8192");
    start(&w, 3);
    put_llama(&w, 0);
    refuses(&w, KVA_BAD_INPUT, "llama.block_count", "0 layers");
    start(&w, 3);
    put_u32(&w, "llama.block_count", 2);
    refuses(&w, KVA_BAD_INPUT, "general.architecture", "is missing");
    start(&w, 3);
    put_u32(&w, "general.architecture", 2);
    refuses(&w, KVA_BAD_INPUT, "general.architecture", "no text");
    start(&w, 3);
    put_string(&w, "general.architecture", "../architectures/llama");
    refuses(&w, KVA_REFUSED, "general.architecture", "is not known");
    start(&w, 3);
    put_string(&w, "general.architecture", "common");
    refuses(&w, KVA_REFUSED, "general.architecture", "is not known");
    start(&w, 3);
    put_string(&w, "general.architecture", "llama");
    put_string(&w, "llama.block_count", "two");
    refuses(&w, KVA_BAD_INPUT, "llama.block_count", "an integer");
    start(&w, 3);
    put_string(&w, "general.architecture", "gpt-oss");
    put_u32(&w, "gpt-oss.block_count", 4);
    put_u32(&w, "gpt-oss.attention.head_count", 4);
    put_u32(&w, "gpt-oss.embedding_length", 64);
    put_array(&w, "gpt-oss.attention.sliding_window_pattern", KVA_GGUF_BOOL, 2);
    put_number(&w, 0, 2);
    refuses(&w, KVA_BAD_INPUT, "gpt-oss.attention.sliding_window_pattern", "too few for layer 2");
}
END_TEST

START_TEST(an_unknown_architecture_is_refused_with_its_keys)
{
    struct writer w;
    start(&w, 3);
    put_string(&w, "general.architecture", "zebra\x1b[31m");
    put_u32(&w, "zebra\x1b[31m.block_count", 2);
    put_u32(&w, "zebra\x1b[31m.attention.sliding_window", 512);
    const char *path = save(&w, "m.gguf");
    refuses_path(path, KVA_REFUSED, "general.architecture", "attention.sliding_window, block_count");
}
END_TEST

// Qwen2 derives its head width; a header that says another one must not become a wrong plan.
START_TEST(a_shape_that_the_architecture_cannot_have_is_refused)
{
    struct writer w;
    start(&w, 3);
    put_string(&w, "general.architecture", "gpt2");
    put_u32(&w, "gpt2.block_count", 2);
    put_u32(&w, "gpt2.embedding_length", 768);
    put_u32(&w, "gpt2.attention.head_count", 12);
    put_u32(&w, "gpt2.attention.key_length", 96);
    refuses(&w, KVA_REFUSED, "general.architecture", "the header says 12 of 96");
}
END_TEST

START_TEST(a_key_that_nobody_knows_is_warned_about)
{
    struct writer w;
    start(&w, 3);
    put_llama(&w, 2);
    put_u32(&w, "llama.attention.new_window", 7);
    put_f32(&w, "llama.rope.freq_base", 10000);
    struct kva_model *model = unit_open(atlas, save(&w, "m.gguf"), NULL);
    ck_assert_uint_eq(model->n_warnings, 2);  // and that it has neither dtype nor tensors
    ck_assert_ptr_nonnull(strstr(model->warnings[0], "llama.attention.new_window"));
    kva_model_close(model);
}
END_TEST

START_TEST(a_frequency_base_that_is_no_float_is_named)
{
    struct writer w;
    struct kva_model *model;
    struct kva_error error = {0};
    start(&w, 3);
    put_string(&w, "general.architecture", "llama");
    put_u32(&w, "llama.context_length", 4096);
    put_u32(&w, "llama.embedding_length", 64);
    put_u32(&w, "llama.block_count", 2);
    put_u32(&w, "llama.attention.head_count", 4);
    put_u32(&w, "llama.rope.freq_base", 10000);
    ck_assert_int_eq(kva_model_open(atlas, save(&w, "m.gguf"), NULL, &model, &error), KVA_BAD_INPUT);
    ck_assert_str_eq(error.key, "llama.rope.freq_base");
    ck_assert_ptr_nonnull(strstr(error.text, "floating-point"));
}
END_TEST

// ---------------------------------------------------------------- the same plan as the config.json of the same model

static void same_as(const char *path, const char *catalogue)
{
    struct kva_model *gguf = unit_open(atlas, path, NULL), *config = unit_open(atlas, catalogue, NULL);
    char pattern[512];
    has_pattern(gguf, kva_model_pattern(config, pattern, sizeof pattern));
    ck_assert_str_eq(gguf->model_type, config->arch->model_type);
    ck_assert_uint_eq(gguf->context_limit, config->context_limit);
    static const uint64_t CONTEXTS[] = {1, 4096, 32768};
    for (size_t c = 0; c < sizeof CONTEXTS / sizeof *CONTEXTS; c++)
        ck_assert_uint_eq(unit_need(gguf, CONTEXTS[c]), unit_need(config, CONTEXTS[c]));
    kva_model_close(gguf);
    kva_model_close(config);
}

// The keys that llama.cpp's conversion/ writes for these models.
START_TEST(a_header_plans_as_its_config_json)
{
    struct writer w;
    start(&w, 3);
    put_string(&w, "general.architecture", "gemma3");
    put_u32(&w, "gemma3.context_length", 32768);
    put_u32(&w, "gemma3.embedding_length", 1152);
    put_u32(&w, "gemma3.block_count", 26);
    put_u32(&w, "gemma3.feed_forward_length", 6912);
    put_u32(&w, "gemma3.attention.head_count", 4);
    put_u32(&w, "gemma3.attention.head_count_kv", 1);
    put_u32(&w, "gemma3.attention.key_length", 256);
    put_u32(&w, "gemma3.attention.value_length", 256);
    put_u32(&w, "gemma3.attention.sliding_window", 512);
    same_as(save(&w, "m.gguf"), "google/gemma-3-1b-it");

    start(&w, 3);
    put_string(&w, "general.architecture", "gpt-oss");
    put_u32(&w, "gpt-oss.context_length", 131072);
    put_u32(&w, "gpt-oss.embedding_length", 2880);
    put_u32(&w, "gpt-oss.block_count", 24);
    put_u32(&w, "gpt-oss.attention.head_count", 64);
    put_u32(&w, "gpt-oss.attention.head_count_kv", 8);
    put_u32(&w, "gpt-oss.attention.key_length", 64);
    put_u32(&w, "gpt-oss.attention.value_length", 64);
    put_u32(&w, "gpt-oss.attention.sliding_window", 128);
    same_as(save(&w, "m.gguf"), "openai/gpt-oss-20b");

    start(&w, 3);
    put_string(&w, "general.architecture", "phi3");
    put_u32(&w, "phi3.context_length", 4096);
    put_u32(&w, "phi3.embedding_length", 3072);
    put_u32(&w, "phi3.block_count", 32);
    put_u32(&w, "phi3.attention.head_count", 32);
    put_u32(&w, "phi3.attention.head_count_kv", 32);
    put_u32(&w, "phi3.attention.sliding_window", 2047);
    same_as(save(&w, "m.gguf"), "microsoft/Phi-3-mini-4k-instruct");
}
END_TEST

// ---------------------------------------------------------------- data/gguf

static bool visit_file(void *user, const char *path)
{
    char name[128];
    const char *base = strrchr(path, '/') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(strlen(base) - strlen(".yaml")), base);
    if (strcmp(name, "common") == 0)
        return true;
    struct writer w;
    start(&w, 3);
    put_string(&w, "general.architecture", name);
    struct kva_gguf *gguf;
    ck_assert_int_eq(kva_gguf_parse("m", w.bytes, w.length, w.length, &gguf, NULL), KVA_OK);
    struct kva_gguf_reading reading;
    struct kva_error error = {0};
    char line[1024];
    enum kva_status status = kva_gguf_reading_open(user, gguf, &reading, &error);
    ck_assert_msg(status == KVA_OK, "%s", kva_error_line(&error, line, sizeof line));
    kva_gguf_reading_close(&reading);
    kva_gguf_close(gguf);
    free(w.bytes);
    return true;
}

START_TEST(every_file_of_data_gguf_keeps_its_schema)
{
    kva_atlas_list(atlas, "gguf", visit_file, atlas);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("gguf");
    TCase *tests = tcase_create("gguf");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_llama_header_is_a_model);
    tcase_add_test(tests, a_file_is_known_by_its_magic_too);
    tcase_add_test(tests, the_file_type_is_the_dtype_where_it_names_one);
    tcase_add_test(tests, weights_are_the_sum_of_the_tensor_infos);
    tcase_add_test(tests, a_type_that_is_not_known_leaves_the_caches_known);
    tcase_add_test(tests, types_have_the_sizes_of_ggml);
    tcase_add_test(tests, a_large_tokenizer_is_stepped_over);
    tcase_add_test(tests, the_files_of_a_split_model_are_joined);
    tcase_add_test(tests, without_its_other_files_the_caches_are_known_and_the_weights_are_not);
    tcase_add_test(tests, split_files_must_agree);
    tcase_add_test(tests, what_is_no_gguf_is_refused);
    tcase_add_test(tests, counts_beyond_the_file_are_refused);
    tcase_add_test(tests, lengths_beyond_the_file_are_refused);
    tcase_add_test(tests, types_of_values_are_checked);
    tcase_add_test(tests, tensor_infos_are_checked);
    tcase_add_test(tests, every_truncation_is_refused);
    tcase_add_test(tests, models_that_make_no_sense_are_refused);
    tcase_add_test(tests, an_unknown_architecture_is_refused_with_its_keys);
    tcase_add_test(tests, a_shape_that_the_architecture_cannot_have_is_refused);
    tcase_add_test(tests, a_key_that_nobody_knows_is_warned_about);
    tcase_add_test(tests, a_frequency_base_that_is_no_float_is_named);
    tcase_add_test(tests, a_header_plans_as_its_config_json);
    tcase_add_test(tests, every_file_of_data_gguf_keeps_its_schema);
    suite_add_tcase(suite, tests);
    return unit_run(suite);
}
