#include "report/result.h"

#include <inttypes.h>
#include <stdlib.h>

#include "report/page.h"
#include "report/result_json.h"
#include "report/words.h"

const char *kva_check_name(enum kva_check check)
{
    static const char *const NAMES[] = {
        [KVA_NOT_CHECKED] = "not checked", [KVA_HOLDS] = "holds", [KVA_FAILS] = "fails"};
    return NAMES[check];
}

// "+1,024 B", "0 B"
static void cell_difference(struct kva_table *table, uint64_t predicted, uint64_t measured)
{
    char count[KVA_HUMAN];
    const bool more = measured >= predicted;
    kva_human_count(more ? measured - predicted : predicted - measured, count);
    kva_table_cell(table, "%s%s B", measured == predicted ? "" : more ? "+" : "-", count);
}

static void cell_exact(struct kva_table *table, uint64_t bytes)
{
    char count[KVA_HUMAN];
    kva_table_cell(table, "%s B", kva_human_count(bytes, count));
}

static void numbers(struct kva_page *page, const struct kva_result *result)
{
    const struct kva_numbers *p = &result->predicted, *m = &result->measured;
    const struct {
        const char *name;
        uint64_t predicted, measured;
    } rows[] = {
        {"weights", p->weights, m->weights},
        {"cache", p->cache, m->cache},
        {"activations", p->activations, m->activations},
        {"workspace", p->workspace, m->workspace},
        {"process", p->process, m->process},
    };
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "", false);
    kva_table_column(&table, "predicted", true);
    kva_table_column(&table, "measured", true);
    kva_table_column(&table, "difference", true);
    kva_table_column(&table, "", true);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char human[KVA_HUMAN];
        if (rows[i].predicted == 0 && rows[i].measured == 0)
            continue;
        kva_table_cell(&table, "%s", rows[i].name);
        cell_exact(&table, rows[i].predicted);
        cell_exact(&table, rows[i].measured);
        cell_difference(&table, rows[i].predicted, rows[i].measured);
        kva_table_cell(&table, "%s", kva_human_bytes(rows[i].measured, human));
    }
    kva_page_table(page, &table);
}

static void levels(struct kva_page *page, const struct kva_result *result)
{
    struct kva_table table = kva_page_new_table(page);
    char tolerance[KVA_HUMAN];
    kva_table_column(&table, "level", false);
    kva_table_column(&table, "verdict", false);
    kva_table_column(&table, "what it says", false);
    kva_table_cell(&table, "asked");
    kva_table_cell(&table, "%s", kva_check_name(result->asked));
    kva_table_cell(&table,
                   "every cache that the weights' shapes ask for is the plan's, byte for byte (%zu allocations)",
                   result->n_ledger);
    kva_table_cell(&table, "given");
    kva_table_cell(&table, "%s", kva_check_name(result->given));
    kva_table_cell(&table, "the %s's own account of the process, within %s",
                   result->device.backend[1] == 'u' ? "driver" : "system",
                   kva_human_bytes(result->process_tolerance, tolerance));
    kva_table_cell(&table, "lossless");
    kva_table_cell(&table, "%s", kva_check_name(result->lossless));
    if (result->lossless == KVA_NOT_CHECKED)
        kva_table_cell(&table, "needs a run under the other policy: kvatlas verify");
    else
        kva_table_cell(&table, "logits under exact and full differ by %g", result->lossless_difference);
    kva_table_cell(&table, "right");
    kva_table_cell(&table, "%s", kva_check_name(result->right));
    if (result->right == KVA_NOT_CHECKED)
        kva_table_cell(&table, "needs an independent implementation's logits: --reference");
    else
        kva_table_cell(&table, "logits differ from the reference's by %.3g (%s), %.3g is allowed",
                       result->right_difference, result->spec.dtype == KVA_BF16 ? "root mean square" : "at most",
                       result->right_tolerance);
    kva_page_heading(page, "Verification");
    kva_page_table(page, &table);
}

static void speed(struct kva_page *page, const struct kva_result *result)
{
    const struct kva_case *spec = &result->spec;
    char prompt[KVA_HUMAN], pruned[KVA_HUMAN];
    kva_page_heading(page, "Time");
    kva_page_paragraph(page, "weights and caches in place after %.2f s", result->load_seconds);
    if (!spec->reference_form)
        kva_text_printf(page->out, "  %s prompt tokens in %.3f s, %.0f tokens/s\n",
                        kva_human_count(result->prompt_tokens, prompt), result->prefill_seconds,
                        (double)result->prompt_tokens / result->prefill_seconds);
    if (result->pruned_rows > 0)
        kva_text_printf(page->out, "  %s of them did not go through the layers that only read another layer's cache\n",
                        kva_human_count(result->pruned_rows, pruned));
    if (spec->decode > 0)
        kva_text_printf(page->out, "  %" PRIu64 " tokens decoded for each sequence, %.3f ms each\n", spec->decode,
                        result->decode_seconds / (double)spec->decode * 1e3);
}

static void generated(struct kva_page *page, const struct kva_result *result)
{
    const uint64_t shown = result->spec.decode < 32 ? result->spec.decode : 32;
    if (result->spec.decode == 0)
        return;
    kva_page_heading(page, "Greedy tokens");
    for (uint64_t s = 0; s < result->spec.sequences && s < 8; s++) {
        kva_text_printf(page->out, "  %" PRIu64 ":", s);
        for (uint64_t i = 0; i < shown; i++)
            kva_text_printf(page->out, " %" PRIu32, result->generated[s * result->spec.decode + i]);
        kva_text_printf(page->out, "%s\n", shown < result->spec.decode ? " ..." : "");
    }
}

static void stages(struct kva_page *page, const char *title, const struct kva_stage_time *times, double repeats)
{
    struct kva_table table = kva_page_new_table(page);
    static const char *const TITLES[] = {"stage", "calls", "ms", "GB", "GB/s", "GFLOP", "TFLOP/s"};
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        kva_table_column(&table, TITLES[i], i > 0);
    for (int i = 0; i < KVA_N_STAGES; i++) {
        const struct kva_stage_time *time = &times[i];
        if (time->calls == 0)
            continue;
        const double seconds = time->milliseconds / 1e3;
        kva_table_cell(&table, "%s", kva_stage_name((enum kva_stage)i));
        kva_table_cell(&table, "%.0f", (double)time->calls / repeats);
        kva_table_cell(&table, "%.3f", time->milliseconds / repeats);
        kva_table_cell(&table, "%.3f", time->bytes / 1e9 / repeats);
        kva_table_cell(&table, "%.0f", seconds > 0 ? time->bytes / 1e9 / seconds : 0);
        kva_table_cell(&table, "%.1f", time->flops / 1e9 / repeats);
        kva_table_cell(&table, "%.2f", seconds > 0 ? time->flops / 1e12 / seconds : 0);
    }
    kva_page_section(page, &table, "%s", title);
}

static void ledger(struct kva_page *page, const struct kva_result *result)
{
    struct kva_table table = kva_page_new_table(page);
    static const char *const TITLES[] = {"layer", "purpose", "asked", "given"};
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        kva_table_column(&table, TITLES[i], i != 1);
    for (size_t i = 0; i < result->n_ledger; i++) {
        const struct kva_allocation *entry = &result->ledger[i];
        if (entry->layer < 0)
            kva_table_cell(&table, "-");
        else
            kva_table_cell(&table, "%" PRId32, entry->layer);
        kva_table_cell(&table, "%s", kva_purpose_name(entry->purpose));
        cell_exact(&table, entry->asked);
        cell_exact(&table, entry->given);
    }
    kva_page_section(page, &table, "Ledger");
}

static enum kva_status write_run(struct kva_page *page, const void *subject, struct kva_error *error)
{
    (void)error;
    const struct kva_result *result = subject;
    const struct kva_case *spec = &result->spec;
    char context[KVA_HUMAN], sequences[KVA_HUMAN], pattern[512];
    kva_page_title(page, "%s  %s  %s  %s sequence%s x %s tokens", result->model->id, spec->policy,
                   kva_dtype_name(spec->dtype), kva_human_count(spec->sequences, sequences),
                   spec->sequences == 1 ? "" : "s", kva_human_count(spec->context, context));
    kva_page_paragraph(page, "%zu layers: %s", result->model->n_layers,
                       kva_model_pattern(result->model, pattern, sizeof pattern));
    kva_text_printf(page->out, "  on %s (%s)%s\n", result->device.name, result->device.backend,
                    result->device.backend[1] == 'p' ? ": no GPU was used" : "");
    kva_page_heading(page, "Predicted and measured");
    numbers(page, result);
    levels(page, result);
    speed(page, result);
    generated(page, result);
    if (page->style->layers)
        ledger(page, result);
    stages(page, "Prefill, by stage", result->prefill_stages, 1);
    if (spec->decode > 0)
        stages(page, "One decoded token, by stage", result->decode_stages, (double)spec->decode);
    if (!result->matches)
        kva_page_paragraph(page, "MISMATCH: %s", result->explanation);
    return KVA_OK;
}

enum kva_status kva_report_run(const struct kva_result *result, const struct kva_report_style *style,
                               struct kva_text *out, struct kva_error *error)
{
    if (style->format == KVA_FORMAT_JSON)
        return kva_run_json(result, out, error);
    return kva_page_write(style, out, write_run, result, error);
}

struct suite {
    const struct kva_result *results;
    size_t n;
};

static const char *short_check(enum kva_check check)
{
    static const char *const WORDS[] = {[KVA_NOT_CHECKED] = "-", [KVA_HOLDS] = "yes", [KVA_FAILS] = "NO"};
    return WORDS[check];
}

static void unable_row(struct kva_table *table, const struct kva_result *result)
{
    kva_table_cell(table, "%s", result->spec.model);
    kva_table_cell(table, "%s", result->spec.policy != NULL ? result->spec.policy : "");
    for (int column = 2; column < 10; column++)
        kva_table_cell(table, "-");
}

// The device of the first case that ran; NULL: none did.
static const struct kva_device_info *device_of(const struct suite *suite)
{
    for (size_t i = 0; i < suite->n; i++)
        if (suite->results[i].status == KVA_OK)
            return &suite->results[i].device;
    return NULL;
}

static enum kva_status write_suite(struct kva_page *page, const void *subject, struct kva_error *error)
{
    (void)error;
    const struct suite *suite = subject;
    struct kva_table table = kva_page_new_table(page);
    static const char *const TITLES[] = {"model",   "policy", "tokens", "cache predicted", "cache measured",
                                         "process", "asked",  "given",  "lossless",        "right"};
    size_t failed = 0, unable = 0;
    const struct kva_device_info *device = device_of(suite);
    for (size_t i = 0; i < sizeof TITLES / sizeof *TITLES; i++)
        kva_table_column(&table, TITLES[i], i >= 2 && i <= 5);
    for (size_t i = 0; i < suite->n; i++) {
        const struct kva_result *result = &suite->results[i];
        char tokens[KVA_HUMAN];
        if (result->status != KVA_OK) {
            unable_row(&table, result);
            unable++;
            continue;
        }
        kva_table_cell(&table, "%s%s", result->model->id, result->spec.depth > 0 ? " (reduced depth)" : "");
        kva_table_cell(&table, "%s %s%s", result->spec.policy, kva_dtype_name(result->spec.dtype),
                       result->spec.no_prune ? " unpruned" : "");
        if (result->spec.sequences > 1)
            kva_table_cell(&table, "%" PRIu64 " x %s", result->spec.sequences,
                           kva_human_count(result->spec.context, tokens));
        else
            kva_table_cell(&table, "%s", kva_human_count(result->spec.context, tokens));
        cell_exact(&table, result->predicted.cache);
        cell_exact(&table, result->measured.cache);
        cell_difference(&table, result->predicted.process, result->measured.process);
        kva_table_cell(&table, "%s", short_check(result->asked));
        kva_table_cell(&table, "%s", short_check(result->given));
        kva_table_cell(&table, "%s", short_check(result->lossless));
        kva_table_cell(&table, "%s", short_check(result->right));
        failed += result->matches ? 0 : 1;
    }
    kva_page_title(page, "Predicted and measured on %s (%s)", device != NULL ? device->name : "nothing",
                   device != NULL ? device->backend : "no case ran");
    if (device != NULL && device->backend[1] == 'p')
        kva_page_paragraph(page, "No GPU was used: the CPU backend ran every case.");
    kva_page_table(page, &table);
    for (size_t i = 0; i < suite->n; i++) {
        const struct kva_result *result = &suite->results[i];
        char line[1024];
        if (result->status != KVA_OK)
            kva_page_paragraph(page, "COULD NOT RUN case %zu, %s: %s", i + 1, result->spec.model,
                               kva_error_line(&result->error, line, sizeof line));
        else if (!result->matches)
            kva_page_paragraph(page, "MISMATCH in case %zu, %s under %s: %s", i + 1, result->model->id,
                               result->spec.policy, result->explanation);
    }
    if (unable > 0)
        kva_page_paragraph(page, "%zu case%s: %zu match, %zu do not, %zu could not run.", suite->n,
                           suite->n == 1 ? "" : "s", suite->n - failed - unable, failed, unable);
    else
        kva_page_paragraph(page, "%zu case%s: %zu match, %zu do not.", suite->n, suite->n == 1 ? "" : "s",
                           suite->n - failed, failed);
    return KVA_OK;
}

enum kva_status kva_report_verify(const struct kva_result *results, size_t n, const struct kva_report_style *style,
                                  struct kva_text *out, struct kva_error *error)
{
    if (style->format == KVA_FORMAT_JSON)
        return kva_verify_json(results, n, out, error);
    const struct suite suite = {results, n};
    return kva_page_write(style, out, write_suite, &suite, error);
}
