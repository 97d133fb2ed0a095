// Reports: tables line up, JSON says null where nothing is known, layers are named shortly.
#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "report/json.h"
#include "report/report.h"
#include "report/table.h"
#include "report/words.h"
#include "unit.h"

static struct kva_arena *arena;

static void set_up(void)
{
    arena = kva_arena_new();
    ck_assert_ptr_nonnull(arena);
}

static void tear_down(void)
{
    kva_arena_free(arena);
}

static struct kva_table two_columns(void)
{
    struct kva_table table = {.arena = arena};
    kva_table_column(&table, "name", false);
    kva_table_column(&table, "count", true);
    kva_table_cell(&table, "a|b");
    kva_table_count(&table, 1234567);
    kva_table_cell(&table, "héé");  // five bytes, three letters
    kva_table_count(&table, 0);
    return table;
}

START_TEST(test_a_text_table_lines_up)
{
    struct kva_table table = two_columns();
    struct kva_text out = {0};
    kva_table_text(&table, false, &out);
    ck_assert_str_eq(out.bytes, "  name      count\n"
                                "  a|b   1,234,567\n"
                                "  héé           -\n");
    kva_text_free(&out);
}
END_TEST

START_TEST(test_a_markdown_table_escapes_bars)
{
    struct kva_table table = two_columns();
    struct kva_text out = {0};
    kva_table_markdown(&table, &out);
    ck_assert_str_eq(out.bytes, "| name | count |\n"
                                "|---|--:|\n"
                                "| a\\|b | 1,234,567 |\n"
                                "| héé | - |\n");
    kva_text_free(&out);
}
END_TEST

START_TEST(test_colour_does_not_move_columns)
{
    struct kva_table table = {.arena = arena};
    struct kva_text out = {0};
    kva_table_column(&table, "", false);
    kva_table_column(&table, "", false);
    kva_table_cell(&table, "%sx%s", kva_colour(true, KVA_CYAN), kva_colour(true, KVA_PLAIN));
    kva_table_cell(&table, "y");
    kva_table_cell(&table, "zz");
    kva_table_cell(&table, "y");
    kva_table_text(&table, true, &out);
    ck_assert_str_eq(out.bytes, "  \033[36mx\033[0m   y\n  zz  y\n");
    kva_text_free(&out);
    ck_assert_str_eq(kva_colour(false, KVA_CYAN), "");
}
END_TEST

static void ranges_are(const uint32_t *layers, size_t n, const char *expected)
{
    ck_assert_str_eq(kva_layer_ranges(arena, layers, n), expected);
}

START_TEST(test_layers_are_named_shortly)
{
    ranges_are(NULL, 0, "");
    ranges_are((const uint32_t[]){7}, 1, "7");
    ranges_are((const uint32_t[]){0, 1, 2, 3}, 4, "0-3");
    ranges_are((const uint32_t[]){0, 2, 4, 6, 8}, 5, "0, 2 .. 8");
    ranges_are((const uint32_t[]){0, 1, 5, 9}, 4, "0-1, 5, 9");
    ranges_are((const uint32_t[]){0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13}, 12, "0-4, 6-10, 12-13");
}
END_TEST

START_TEST(test_json_says_null_where_nothing_is_known)
{
    json_t *unknown = kva_json_count(KVA_UNKNOWN), *most = kva_json_count(INT64_MAX), *none = kva_json_text(NULL),
           *dtype = kva_json_dtype(KVA_DTYPE_NONE), *layer = kva_json_layer(-1), *first = kva_json_layer(0);
    ck_assert(json_is_null(unknown));
    ck_assert(json_integer_value(most) == INT64_MAX);
    ck_assert(json_is_null(none));
    ck_assert(json_is_null(dtype));
    ck_assert(json_is_null(layer));
    ck_assert(json_is_integer(first));
    json_decref(unknown);
    json_decref(most);
    json_decref(none);
    json_decref(dtype);
    json_decref(layer);
    json_decref(first);
}
END_TEST

START_TEST(test_a_path_that_is_not_utf8_can_be_written)
{
    json_t *text = kva_json_text("models/\xff/config.json");
    ck_assert_str_eq(json_string_value(text), "models/?/config.json");
    json_decref(text);
}
END_TEST

// Two layers of one cache of 2 heads of 4 + 4 in an unknown type, from a config that states little.
static struct kva_model bare_model(struct kva_layer layers[2])
{
    for (uint32_t i = 0; i < 2; i++)
        layers[i] = (struct kva_layer){
            .index = i,
            .kind = "full",
            .mixer = KVA_MIXER_ATTENTION,
            .caches = {{.kind = KVA_CACHE_FULL, .kv_heads = 2, .k_dim = 4, .v_dim = 4, .reads_layer = -1}},
            .n_caches = 1};
    return (struct kva_model){.id = "bare",
                              .source = "bare/config.json",
                              .model_type = "bare",
                              .architecture = "",
                              .family = "none",
                              .naive_kv_heads = 2,
                              .naive_k_dim = 4,
                              .naive_v_dim = 4,
                              .layers = layers,
                              .n_layers = 2,
                              .parameters = KVA_UNKNOWN,
                              .weight_bytes = KVA_UNKNOWN};
}

START_TEST(test_show_of_a_config_that_states_little)
{
    struct kva_layer layers[2];
    const struct kva_model model = bare_model(layers);
    struct kva_report_style style = {.format = KVA_FORMAT_JSON};
    struct kva_text out = {0};
    ck_assert_int_eq(kva_report_show(&model, NULL, &style, &out, NULL), KVA_OK);
    json_t *root = json_loads(out.bytes, 0, NULL), *described = json_object_get(root, "model");
    ck_assert(json_is_null(json_object_get(described, "context_limit")));
    ck_assert(json_is_null(json_object_get(described, "dtype")));
    ck_assert(json_is_null(json_object_get(described, "parameters")));
    ck_assert(json_is_null(json_object_get(described, "weight_bytes")));
    json_t *layer = json_array_get(json_object_get(root, "layers"), 0);
    json_t *cache = json_array_get(json_object_get(layer, "caches"), 0);
    ck_assert(json_is_null(json_object_get(cache, "bytes_per_token")));  // no element type, no bytes
    json_decref(root);
    kva_text_free(&out);
    style.format = KVA_FORMAT_TEXT;
    ck_assert_int_eq(kva_report_show(&model, NULL, &style, &out, NULL), KVA_OK);
    ck_assert_ptr_nonnull(strstr(out.bytes, "parameters     unknown"));
    kva_text_free(&out);
}
END_TEST

START_TEST(test_every_assumption_is_in_every_format)
{
    struct kva_layer layers[2];
    const struct kva_model model = bare_model(layers);
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, &model, &(struct kva_deployment){.context = 10}, &plan, NULL), KVA_OK);
    ck_assert_uint_eq(plan->need, 2 * 2 * 8 * 2 * 10);
    ck_assert_uint_ge(plan->n_assumed, 3);
    for (int format = KVA_FORMAT_TEXT; format <= KVA_FORMAT_MARKDOWN; format++) {
        const struct kva_report_style style = {.format = (enum kva_format)format};
        struct kva_text out = {0};
        ck_assert_int_eq(kva_report_plans(&(struct kva_plan_set){.plans = &plan, .n_plans = 1}, &style, &out, NULL),
                         KVA_OK);
        for (size_t a = 0; a < plan->n_assumed; a++)
            ck_assert_msg(strstr(out.bytes, plan->assumed[a]) != NULL, "%s", plan->assumed[a]);
        ck_assert_int_eq(out.bytes[out.length - 1], '\n');
        kva_text_free(&out);
    }
    kva_plan_free(plan);
}
END_TEST

START_TEST(test_bars_and_colour_only_where_asked)
{
    struct kva_layer layers[2];
    const struct kva_model model = bare_model(layers);
    struct kva_plan *plan;
    ck_assert_int_eq(kva_plan_make(NULL, &model, &(struct kva_deployment){.context = 10}, &plan, NULL), KVA_OK);
    struct kva_report_style style = {.format = KVA_FORMAT_TEXT};
    struct kva_text out = {0};
    ck_assert_int_eq(kva_report_plans(&(struct kva_plan_set){.plans = &plan, .n_plans = 1}, &style, &out, NULL),
                     KVA_OK);
    ck_assert_ptr_null(strstr(out.bytes, "█"));
    ck_assert_ptr_null(strchr(out.bytes, '\033'));
    kva_text_free(&out);
    style.terminal = style.colour = true;
    ck_assert_int_eq(kva_report_plans(&(struct kva_plan_set){.plans = &plan, .n_plans = 1}, &style, &out, NULL),
                     KVA_OK);
    ck_assert_ptr_nonnull(strstr(out.bytes, "█"));
    ck_assert_ptr_nonnull(strchr(out.bytes, '\033'));
    kva_text_free(&out);
    kva_plan_free(plan);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("report");
    TCase *report = tcase_create("report");
    tcase_add_checked_fixture(report, set_up, tear_down);
    tcase_add_test(report, test_a_text_table_lines_up);
    tcase_add_test(report, test_a_markdown_table_escapes_bars);
    tcase_add_test(report, test_colour_does_not_move_columns);
    tcase_add_test(report, test_layers_are_named_shortly);
    tcase_add_test(report, test_json_says_null_where_nothing_is_known);
    tcase_add_test(report, test_a_path_that_is_not_utf8_can_be_written);
    tcase_add_test(report, test_show_of_a_config_that_states_little);
    tcase_add_test(report, test_every_assumption_is_in_every_format);
    tcase_add_test(report, test_bars_and_colour_only_where_asked);
    suite_add_tcase(suite, report);
    return unit_run(suite);
}
