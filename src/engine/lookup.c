// What engines look up of their version: rules, cache types; and the assumptions they note.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "engine/engine.h"

enum kva_status kva_assume(struct kva_call *call, const char *format, ...)
{
    struct kva_assumptions *assumptions = &call->assumptions;
    if (assumptions->n == KVA_MAX_ASSUMED)
        return kva_fail(call->error, KVA_BAD_INPUT, NULL, NULL, "more than %d things had to be assumed",
                        KVA_MAX_ASSUMED);
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    const char *kept = kva_arena_strdup(call->arena, line);
    if (kept == NULL)
        return kva_fail_memory(call->error, strlen(line) + 1);
    assumptions->text[assumptions->n++] = kept;
    return KVA_OK;
}

static int compare(const struct kva_rule *rule, const char *name, const char *key)
{
    const int order = strcmp(rule->name, name);
    return order != 0 ? order : strcmp(rule->key, key);
}

const char *kva_rule(const struct kva_call *call, const char *name, const char *key)
{
    const struct kva_rule *rules = call->version->rules;
    size_t low = 0, high = call->version->n_rules;
    if (key == NULL)
        return NULL;
    while (low < high) {  // the first that is not before name and key
        const size_t middle = low + (high - low) / 2;
        if (compare(&rules[middle], name, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < call->version->n_rules && compare(&rules[low], name, key) == 0 ? rules[low].value : NULL;
}

const char *kva_model_rule(const struct kva_call *call, const char *name)
{
    const struct kva_model *model = call->model;
    const bool named = model->architecture != NULL && *model->architecture != '\0';
    return kva_rule(call, name, named ? model->architecture : model->model_type);
}

const struct kva_kv_type *kva_kv_type_find(const struct kva_call *call, const char *name)
{
    for (size_t t = 0; t < call->version->n_kv_types; t++)
        for (unsigned n = 0; n < call->version->kv_types[t]->n_names; n++)
            if (strcmp(call->version->kv_types[t]->names[n], name) == 0)
                return call->version->kv_types[t];
    return NULL;
}

const char *kva_kv_type_names(const struct kva_call *call)
{
    struct kva_text text = {0};
    for (size_t t = 0; t < call->version->n_kv_types; t++)
        for (unsigned n = 0; n < call->version->kv_types[t]->n_names; n++)
            kva_text_printf(&text, "%s%s", text.length > 0 ? ", " : "", call->version->kv_types[t]->names[n]);
    const char *names = text.failed ? NULL : kva_arena_strdup(call->arena, text.length > 0 ? text.bytes : "none");
    kva_text_free(&text);
    return names;
}
