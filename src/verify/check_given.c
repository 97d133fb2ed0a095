// What a check plans with: the flags that a log holds, the caller's over them, and the numbers that only the log tells.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "verify/check.h"

static const char *write_value(const struct kva_quantity *value, char buffer[static 32])
{
    if (value->type == KVA_QUANTITY_TEXT)
        return value->text;
    if (value->type == KVA_QUANTITY_COUNT)
        snprintf(buffer, 32, "%" PRIu64, value->count);
    else
        snprintf(buffer, 32, "%g", value->real);
    return buffer;
}

static void note_difference(void *user, const char *flag, const struct kva_quantity *mine,
                            const struct kva_quantity *other)
{
    char a[32], b[32];
    kva_log_note(user, "the log says %s %.100s; the command line says %.100s and wins", flag, write_value(other, a),
                 write_value(mine, b));
}

// What the log says of `key`, as a count; 1: nothing.
static uint64_t said_count(const struct kva_log *log, const struct kva_log_engine_part *part, const char *key)
{
    uint64_t count;
    for (unsigned s = 0; s < log->facts->n_settings; s++)
        if (log->settings[s].line > 0 && strcmp(log->facts->settings[s].key, key) == 0 &&
            strcmp(log->facts->settings[s].engine, part->id) == 0 && kva_parse_count(log->settings[s].value, &count))
            return kva_max(count, 1);
    return 1;
}

// The flags that the log holds, then the caller's over them.
void kva_check_merge(struct kva_log *log, const struct kva_log_engine_part *part, const struct kva_deployment *asked,
                     struct kva_deployment *deployment)
{
    struct kva_deployment said = {0};
    for (unsigned s = 0; s < log->facts->n_settings; s++) {
        const struct kva_log_setting *setting = &log->facts->settings[s];
        if (log->settings[s].line == 0 || setting->flag == NULL || strcmp(setting->engine, part->id) != 0)
            continue;
        const char *value = log->settings[s].value;
        char divided[32];
        uint64_t count;
        if (setting->per != NULL && kva_parse_count(value, &count)) {
            snprintf(divided, sizeof divided, "%" PRIu64, count / said_count(log, part, setting->per));
            value = divided;
        }
        struct kva_error error = {0};
        if (kva_deployment_set(&said, setting->flag, value, &error) != KVA_OK)
            kva_log_note(log, "line %" PRIu64 ": %s=%s is not understood and left out", log->settings[s].line,
                         setting->key, log->settings[s].value);
    }
    *deployment = asked != NULL ? *asked : (struct kva_deployment){0};
    kva_deployment_fill(deployment, &said, note_difference, log);
}

// ---------------------------------------------------------------- numbers that the log gives

// Any size that is printed as `value` GiB.
static void bound(struct kva_check_call *call, const struct kva_log_value *value)
{
    const int decimals = value->kind == KVA_PLACE_REAL      ? value->decimals
                         : strchr(value->text, '.') != NULL ? (int)strlen(strchr(value->text, '.') + 1)
                                                            : 0;
    const double half = 0.5 * pow(10, -decimals);
    if (!(value->real >= 0) || value->real > 0x1p30)
        return;
    const uint64_t low = value->real > half ? (uint64_t)ceil((value->real - half) * 0x1p30) : 1;
    const uint64_t high = (uint64_t)floor((value->real + half) * 0x1p30);
    if (!call->bounded) {
        call->low = low;
        call->high = high;
    } else if (low <= call->high && high >= call->low) {  // said twice, with other decimals
        call->low = kva_max(call->low, low);
        call->high = kva_min(call->high, high);
    }
    call->bounded = true;
}

static void take_exact(struct kva_check_call *call, const struct kva_log_given *given, size_t statement, size_t value,
                       struct kva_deployment *deployment)
{
    const struct kva_log_value *said = &call->statements[statement].values[value];
    const char *text = said->text;
    char digits[32];
    if (said->kind == KVA_PLACE_COUNT) {
        snprintf(digits, sizeof digits, "%" PRIu64, said->count);
        text = digits;
    }
    struct kva_deployment changed = *deployment;
    struct kva_error error = {0};
    if (kva_deployment_set(&changed, given->flag, text, &error) != KVA_OK) {
        kva_log_note(call->log, "line %" PRIu64 ": %s %s is not understood and left out", said->line, said->name,
                     said->text);
        return;
    }
    *deployment = changed;
    call->given[statement][value] = true;
}

static bool same_flag(const char *a, const char *b)
{
    bool negated;
    return a != NULL && kva_deployment_flag_find(a, &negated) == kva_deployment_flag_find(b, &negated);
}

static void take_given(struct kva_check_call *call, const struct kva_log_given *given,
                       const struct kva_deployment *before, struct kva_deployment *deployment)
{
    bool taken = false;
    const bool rounded = given->unit != NULL && same_flag(call->searched, given->flag);
    for (size_t s = 0; s < call->n_statements; s++) {
        if (strcmp(call->statements[s].id, given->line) != 0)
            continue;
        if (given->set != NULL) {
            if (!kva_deployment_says(before, given->flag))
                (void)kva_deployment_set(deployment, given->flag, given->set, NULL);
            return;
        }
        for (size_t v = 0; v < call->statements[s].n_values; v++) {
            if (strcmp(call->statements[s].values[v].name, given->quantity) != 0 ||
                kva_deployment_says(before, given->flag))
                continue;
            if (rounded) {
                bound(call, &call->statements[s].values[v]);
                call->given[s][v] = true;
            } else if (!taken && !kva_deployment_says(deployment, given->flag)) {
                take_exact(call, given, s, v, deployment);
                taken = true;
            } else if (taken)  // another pool's line says it once more
                call->given[s][v] = given->unit == NULL && call->statements[s].values[v].kind == KVA_PLACE_WORD;
        }
    }
}

// What nobody stated and the plan cannot know.
void kva_check_take_given(struct kva_check_call *call, struct kva_deployment *deployment)
{
    const struct kva_deployment before = *deployment;
    call->searched = call->part->facts != NULL ? call->part->facts->searched : NULL;
    for (unsigned g = 0; g < call->log->facts->n_given; g++) {
        const struct kva_log_given *given = &call->log->facts->given[g];
        if (strcmp(given->engine, call->part->id) == 0 &&
            !(deployment->auto_context && same_flag("--context", given->flag)))
            take_given(call, given, &before, deployment);
    }
    if (call->searched != NULL && kva_deployment_says(deployment, call->searched))
        call->searched = NULL;
}
