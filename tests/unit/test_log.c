// Lines of engines' logs: templates matched against what engines really printed, ranks, arguments, hostile bytes.
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"
#include "verify/log.h"

static struct kva_arena *arena;
static struct kva_line_value values[KVA_MAX_PLACES];

static void open_arena(void)
{
    arena = kva_arena_new();
}

static void close_arena(void)
{
    kva_arena_free(arena);
}

static bool match(const char *template, const char *line)
{
    struct kva_line_pattern pattern;
    struct kva_line_found found;
    ck_assert(kva_line_compile(template, arena, &pattern));
    return kva_line_match(&pattern, line, strlen(line), values, &found);
}

static void expect_text(size_t value, const char *text)
{
    ck_assert_uint_eq(values[value].length, strlen(text));
    ck_assert_mem_eq(values[value].bytes, text, strlen(text));
}

// ---------------------------------------------------------------- templates

#define CAPACITY                                                                                                       \
    "GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {context:,} tokens per request: {n:.2f}x"
#define LLAMACPP                                                                                                       \
    "llama_kv_cache: size = {mib:7.2f} MiB ({cells:6d} cells, {layers:3d} layers, {sequences:2d}/{streams:d} seqs), "  \
    "K ({type_k:s}): {k_mib:7.2f} MiB, V ({type_v:s}): {v_mib:7.2f} MiB"

START_TEST(numbers_are_read_where_they_stand)
{
    ck_assert(match(CAPACITY,
                    "(EngineCore_DP0 pid=200) INFO 10-03 12:00:20 [kv_cache_utils.py:2395] GPU KV cache size: "
                    "1,234,560 tokens, Maximum concurrency for 32,768 tokens per request: 37.68x"));
    ck_assert_uint_eq(values[0].count, 1234560);
    ck_assert_uint_eq(values[1].count, 32768);
    ck_assert_double_eq(values[2].real, 37.68);
    ck_assert(match(LLAMACPP,
                    "llama_kv_cache: size =  320.00 MiB (  4096 cells,  10 layers,  1/1 seqs), K (q8_0):  160.00 "
                    "MiB, V (f16):  160.00 MiB"));
    ck_assert_uint_eq(values[1].count, 4096);
    expect_text(5, "q8_0");
    expect_text(7, "f16");
}
END_TEST

START_TEST(blanks_are_alike_and_what_follows_may_be_anything)
{
    ck_assert(
        match("Available KV cache memory: {budget:gib} GiB", "INFO Available   KV cache\tmemory: 18.69 GiB left"));
    ck_assert_double_eq(values[0].real, 18.69);
    ck_assert(match("#tokens: {tokens:d}, KV size: {gib:.2f} GB",
                    "[TP0] KV Cache is allocated. #tokens: 274934, KV size: "
                    "17.99 GB"));
    ck_assert(match("{a:d} {b:s} of", "x 1 word of more") == false);  // no word to start from
}
END_TEST

START_TEST(half_lines_do_not_match)
{
    ck_assert(!match(CAPACITY, "GPU KV cache size: 1,234,560 tokens, Maximum concurrency for 32,768 tok"));
    ck_assert(!match(CAPACITY, "GPU KV cache size: 1,234,560 tokens"));
    ck_assert(!match("Available KV cache memory: {budget:gib} GiB", "Available KV cache memory: 18.6"));
    ck_assert(!match("Available KV cache memory: {budget:gib} GiB", "Available KV cache memory: nan GiB"));
    ck_assert(!match("Available KV cache memory: {budget:gib} GiB", "Available KV cache memory: "));
    ck_assert(!match("build: {build:d} (", "rebuild: 8390 (abc)"));
}
END_TEST

START_TEST(absurd_numbers_are_not_wrapped)
{
    ck_assert(match("size: {tokens:,} tokens", "size: 99999999999999999999999999999 tokens"));
    ck_assert_uint_eq(values[0].count, KVA_UNKNOWN);
    ck_assert(match("memory: {budget:gib} GiB", "memory: 1e30 GiB"));
    ck_assert_double_eq(values[0].real, 1e30);
    ck_assert(!match("size: {tokens:,} tokens",
                     "size: 1111111111111111111111111111111111111111111111111111111111111111111"
                     "1111111111111111111111111111111 tokens"));
    ck_assert(!match("size: {tokens:,} tokens", "size: -5 tokens"));
}
END_TEST

// ---------------------------------------------------------------- ranks

static void expect_rank(const char *prefix, const char *expected)
{
    char rank[KVA_LOG_RANK];
    kva_log_rank(prefix, strlen(prefix), rank);
    ck_assert_str_eq(rank, expected);
}

START_TEST(ranks_are_named_before_the_message)
{
    expect_rank("[2025-03-25 10:00:00 TP0] ", "TP0");
    expect_rank("[2025-11-21 DP1 TP3 EP3] ", "DP1 TP3 EP3");
    expect_rank("(Worker_PP1_TP0 pid=17) INFO 10-03 ", "PP1 TP0");
    expect_rank("(VllmWorker rank=1 pid=99) INFO ", "rank 1");
    expect_rank("[rank0]: ", "rank 0");
    expect_rank("[10/11/2025] [TRT-LLM] [RANK 2] [I] ", "rank 2");
    expect_rank("(EngineCore pid=246) INFO ", "pid 246");
    expect_rank("(EngineCore_DP0 pid=246) INFO ", "DP0");
    expect_rank("vllm-0  | 2026-09-11T14:12:53Z INFO ", "");
    expect_rank("HTTP0 STEP1 ", "");
}
END_TEST

// ---------------------------------------------------------------- arguments

struct arguments {
    char text[1024];
};

static void append(void *user, const char *key, const char *value)
{
    struct arguments *arguments = user;
    const size_t length = strlen(arguments->text);
    snprintf(arguments->text + length, sizeof arguments->text - length, "%s=%s|", key, value);
}

static void expect_arguments(const char *text, const char *expected)
{
    struct arguments arguments = {""};
    kva_log_arguments(text, strlen(text), append, &arguments);
    ck_assert_str_eq(arguments.text, expected);
}

START_TEST(arguments_are_read_as_python_writes_them)
{
    expect_arguments("{'model': 'Qwen/Qwen3-8B', 'max_model_len': 8192, 'served_model_name': ['a', 'b'], 'seed': None}",
                     "model=Qwen/Qwen3-8B|max_model_len=8192|seed=None|");
    expect_arguments("model='m', speculative_config=SpeculativeConfig(method='mtp', num_spec_tokens=3), "
                     "dtype=torch.bfloat16, kv_cache_dtype=auto, enable_prefix_caching=True",
                     "model=m|speculative_config.method=mtp|speculative_config.num_spec_tokens=3|dtype=bfloat16|"
                     "kv_cache_dtype=auto|enable_prefix_caching=True|");
    expect_arguments("model_path='it\\'s', mode=<CacheMode.ALIGN: 'align'>, tp_size=2)",
                     "model_path=it's|mode=align|tp_size=2|");
    expect_arguments("a='never closed, b=2", "a=never closed, b=2|");
    expect_arguments("((((((((((((((((((((((((((((((((((((a=1", "");  // deeper than anything is
    expect_arguments("}}}]]])))a=1", "a=1|");
    expect_arguments("", "");
}
END_TEST

// ---------------------------------------------------------------- streams

static char path[] = "/tmp/test_log_XXXXXX";

static void write_bytes(const char *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void expect_lines(const char *bytes, size_t length, const char *expected)
{
    struct kva_log_stream stream;
    struct kva_error error;
    char *line, text[4096] = "";
    size_t n;
    write_bytes(bytes, length);
    ck_assert_int_eq(kva_log_stream_open(path, &stream, &error), KVA_OK);
    while (kva_log_stream_next(&stream, &line, &n)) {
        ck_assert_uint_eq(strlen(line), n);
        const size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%llu:%s|", (unsigned long long)stream.number, line);
    }
    ck_assert_str_eq(text, expected);
    kva_log_stream_close(&stream);
}
#define LINES(bytes, expected) expect_lines(bytes, sizeof bytes - 1, expected)

START_TEST(lines_of_any_bytes)
{
    LINES("one\n\ntwo\r\nthree", "1:one|3:two|4:three|");
    LINES("10%\r20%\rdone\nnext\n", "1:10%|1:20%|1:done|2:next|");
    LINES("\033[1;32mINFO\033[0m \033]0;title\aok\033(B\n", "1:INFO ok|");
    LINES("o\0n\0e\0\n\0t\0w\0o\0\n\0", "1:one|2:two|");
    LINES("{\"log\":\"msg=\\\"kv cache\\\" \\u001b[0mend\\n\",\"stream\":\"stderr\"}\n",
          "1:{\"log\":\"msg=\"kv cache\" end \",\"stream\":\"stderr\"}|");
    LINES("\033", "");
    LINES("\033[", "");
    LINES("\033[12", "");
    LINES("{\\", "1:{\\|");
    LINES("{\\u00", "1:{?|");
    LINES("", "");
}
END_TEST

START_TEST(a_long_line_is_cut_and_the_next_one_read)
{
    struct kva_log_stream stream;
    struct kva_error error;
    char *line;
    size_t n;
    const size_t length = 3 * KVA_LOG_LINE + 17;
    char *bytes = malloc(length + 6);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 'a', length);
    memcpy(bytes + length, "\nnext\n", 6);
    write_bytes(bytes, length + 6);
    free(bytes);
    ck_assert_int_eq(kva_log_stream_open(path, &stream, &error), KVA_OK);
    ck_assert(kva_log_stream_next(&stream, &line, &n));
    ck_assert_uint_eq(n, KVA_LOG_LINE);
    ck_assert(kva_log_stream_next(&stream, &line, &n));
    ck_assert_str_eq(line, "next");
    ck_assert_uint_eq(stream.number, 2);
    ck_assert(!kva_log_stream_next(&stream, &line, &n));
    kva_log_stream_close(&stream);
}
END_TEST

int main(void)
{
    const int file = mkstemp(path);
    if (file < 0)
        return EXIT_FAILURE;
    close(file);
    Suite *suite = suite_create("log");
    TCase *lines = tcase_create("lines");
    tcase_add_checked_fixture(lines, open_arena, close_arena);
    tcase_add_test(lines, numbers_are_read_where_they_stand);
    tcase_add_test(lines, blanks_are_alike_and_what_follows_may_be_anything);
    tcase_add_test(lines, half_lines_do_not_match);
    tcase_add_test(lines, absurd_numbers_are_not_wrapped);
    tcase_add_test(lines, ranks_are_named_before_the_message);
    tcase_add_test(lines, arguments_are_read_as_python_writes_them);
    tcase_add_test(lines, lines_of_any_bytes);
    tcase_add_test(lines, a_long_line_is_cut_and_the_next_one_read);
    suite_add_tcase(suite, lines);
    const int status = unit_run(suite);
    unlink(path);
    return status;
}
