// What the person says instead of the config: "KEY=VALUE".
#include <string.h>

#include "base/error.h"
#include "model/build.h"

// JSON where it is JSON, else text: 8, true, null, [1, 2], full_attention.
static json_t *parse_value(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    return value != NULL ? value : json_string(text);
}

static enum kva_status bad(struct kva_build *build, const char *text, const char *what)
{
    return kva_fail(build->error, KVA_BAD_INPUT, NULL, "--assume", "\"%.80s\" %s", text, what);
}

enum kva_status kva_assume_read(struct kva_build *build)
{
    const struct kva_model_options *options = &build->options;
    build->assumed = kva_arena_alloc(build->arena, options->n_assume + 1, sizeof *build->assumed);
    if (build->assumed == NULL)
        return kva_build_memory(build);
    for (size_t i = 0; i < options->n_assume; i++) {
        const char *text = options->assume[i], *equals = strchr(text, '=');
        if (equals == NULL || equals == text)
            return bad(build, text, "is not KEY=VALUE, such as num_key_value_heads=8");
        const char *key = kva_arena_printf(build->arena, "%.*s", (int)(equals - text), text);
        if (key == NULL)
            return kva_build_memory(build);
        if (strcmp(key, "family") == 0)
            build->family = equals + 1;
        else if (strcmp(key, "mtp") == 0) {
            build->mtp = strcmp(equals + 1, "on") == 0;
            if (!build->mtp && strcmp(equals + 1, "off") != 0)
                return bad(build, text, "is neither mtp=on nor mtp=off");
        } else {
            json_t *value = parse_value(equals + 1);
            if (value == NULL)
                return bad(build, text, "is not UTF-8 text");
            build->assumed[build->n_assumed++] = (struct kva_assumption){key, value, false};
        }
    }
    return KVA_OK;
}

enum kva_status kva_assume_finish(struct kva_build *build)
{
    for (size_t i = 0; i < build->n_assumed; i++)
        if (!build->assumed[i].used)
            return bad(build, build->assumed[i].key, "decides nothing here: the architecture file reads no such key");
    return KVA_OK;
}
