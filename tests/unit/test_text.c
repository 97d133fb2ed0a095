// Numbers and text as people read and write them.
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "unit.h"

static void bytes_are(uint64_t bytes, const char *expected)
{
    char buffer[KVA_HUMAN];
    ck_assert_str_eq(kva_human_bytes(bytes, buffer), expected);
}

START_TEST(test_bytes_are_written_in_binary_units)
{
    bytes_are(0, "0 B");
    bytes_are(1023, "1023 B");
    bytes_are(1024, "1.00 KiB");
    bytes_are(11173625856, "10.41 GiB");  // Gemma-3-27B at 131072 tokens: 11173625856 / 2^30
    bytes_are(66571993088, "62.00 GiB");
    bytes_are(131072, "128.0 KiB");
    bytes_are(UINT64_MAX, "16.00 EiB");
}
END_TEST

static void count_is(uint64_t count, const char *expected)
{
    char buffer[KVA_HUMAN];
    ck_assert_str_eq(kva_human_count(count, buffer), expected);
}

START_TEST(test_counts_have_commas)
{
    count_is(0, "0");
    count_is(999, "999");
    count_is(1000, "1,000");
    count_is(11173625856, "11,173,625,856");
    count_is(UINT64_MAX, "18,446,744,073,709,551,615");
}
END_TEST

START_TEST(test_counts_are_read_as_people_type_them)
{
    static const struct {
        const char *text;
        uint64_t count;
    } GOOD[] = {{"0", 0},
                {"131072", 131072},
                {"128k", 131072},
                {"32K", 32768},
                {"1m", 1048576},
                {"131_072", 131072},
                {"9223372036854775808", UINT64_C(1) << 63}};
    static const char *const BAD[] = {"",
                                      "k",
                                      "-1",
                                      "+1",
                                      "1.5",
                                      "12x",
                                      "1kk",
                                      "_1",
                                      " 1",
                                      "0x10",
                                      "1 k",
                                      "١",
                                      "9223372036854775809",
                                      "18446744073709551616",
                                      "9007199254740993k",
                                      "99999999999999999999999999"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        uint64_t count = 7;
        ck_assert_msg(kva_parse_count(GOOD[i].text, &count), "%s", GOOD[i].text);
        ck_assert_uint_eq(count, GOOD[i].count);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        uint64_t count = 7;
        ck_assert_msg(!kva_parse_count(BAD[i], &count), "%s", BAD[i]);
        ck_assert_uint_eq(count, 7);
    }
}
END_TEST

START_TEST(test_text_grows)
{
    struct kva_text text = {0};
    for (int i = 0; i < 1000; i++)
        kva_text_printf(&text, "%03d ", i);
    kva_text_add(&text, "end", 3);
    ck_assert(!text.failed);
    ck_assert_uint_eq(text.length, 4003);
    ck_assert_int_eq(strncmp(text.bytes, "000 001 ", 8), 0);
    ck_assert_str_eq(text.bytes + 4000, "end");
    kva_text_free(&text);
    ck_assert_ptr_null(text.bytes);
}
END_TEST

START_TEST(test_failed_text_stays_failed)
{
    struct kva_text text = {0};
    kva_text_printf(&text, "before");
    text.failed = true;
    kva_text_printf(&text, "after");
    ck_assert_str_eq(text.bytes, "before");
    kva_text_free(&text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("text");
    TCase *text = tcase_create("text");
    tcase_add_test(text, test_bytes_are_written_in_binary_units);
    tcase_add_test(text, test_counts_have_commas);
    tcase_add_test(text, test_counts_are_read_as_people_type_them);
    tcase_add_test(text, test_text_grows);
    tcase_add_test(text, test_failed_text_stays_failed);
    suite_add_tcase(suite, text);
    return unit_run(suite);
}
