// What tests of engines do alike: a plan from the flags that an engine's users type, the lines that it prints.
#ifndef TEST_ENGINE_UNIT_H
#define TEST_ENGINE_UNIT_H

#include <stdio.h>
#include <string.h>

#include "unit.h"

enum { UNIT_MAX_FLAGS = 24 };

static inline struct kva_model *unit_open_json(struct kva_atlas *atlas, const char *json)
{
    struct kva_error error = {0};
    struct kva_model *model;
    char line[1024];
    const enum kva_status status = kva_model_from_json(atlas, json, strlen(json), "test", NULL, &model, &error);
    ck_assert_msg(status == KVA_OK, "%s", kva_error_line(&error, line, sizeof line));
    return model;
}

// A name of the catalogue, or a config as text.
static inline struct kva_model *unit_model(struct kva_atlas *atlas, const char *model)
{
    return *model == '{' ? unit_open_json(atlas, model) : unit_open(atlas, model, NULL);
}

// flags: "--kv-bytes=40GiB --tp=8 --disable-radix-cache"
static inline void unit_flags(struct kva_deployment *deployment, const char *flags, char *room, size_t size)
{
    struct kva_error error = {0};
    ck_assert_uint_lt(strlen(flags), size);
    strcpy(room, flags);
    for (char *flag = strtok(room, " "); flag != NULL; flag = strtok(NULL, " ")) {
        char *value = strchr(flag, '=');
        if (value != NULL)
            *value++ = '\0';
        ck_assert_msg(kva_deployment_set(deployment, flag, value, &error) == KVA_OK, "%s: %s", flag, error.text);
    }
}

static inline enum kva_status unit_try(struct kva_atlas *atlas, const struct kva_model *model, const char *engine,
                                       const char *flags, char *room, size_t size, struct kva_plan **plan,
                                       struct kva_error *error)
{
    struct kva_deployment deployment = {.engine = engine};
    unit_flags(&deployment, flags, room, size);
    if (deployment.context == 0)
        deployment.context = 8192;
    return kva_plan_make(atlas, model, &deployment, plan, error);
}

static inline bool unit_prints(const struct kva_plan *plan, const char *line)
{
    for (size_t i = 0; i < plan->n_prints; i++)
        if (strcmp(plan->prints[i].text, line) == 0)
            return true;
    return false;
}

static inline void unit_show_prints(const struct kva_plan *plan, char *text, size_t size)
{
    *text = '\0';
    for (size_t i = 0; i < plan->n_prints; i++)
        snprintf(text + strlen(text), size - strlen(text), "%s\n", plan->prints[i].text);
}

#endif
