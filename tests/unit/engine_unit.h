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

// A plan of what must be planned.
static inline struct kva_plan *unit_plan(struct kva_atlas *atlas, const struct kva_model *model, const char *engine,
                                         const char *flags)
{
    static char room[512];  // the plan keeps texts of the flags
    struct kva_error error = {0};
    struct kva_plan *plan;
    const enum kva_status status = unit_try(atlas, model, engine, flags, room, sizeof room, &plan, &error);
    ck_assert_msg(status == KVA_OK, "%s %s: %s", engine, flags, error.text);
    return plan;
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

// An engine prints this line for a model and these flags.
struct unit_line {
    const char *model, *engine, *flags, *line;
};

static inline void unit_check_lines(struct kva_atlas *atlas, const struct unit_line *lines, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kva_model *model = unit_model(atlas, lines[i].model);
        struct kva_plan *plan = unit_plan(atlas, model, lines[i].engine, lines[i].flags);
        char shown[2048];
        unit_show_prints(plan, shown, sizeof shown);
        ck_assert_msg(unit_prints(plan, lines[i].line), "%s, %s %s prints\n%snot\n%s", lines[i].model, lines[i].engine,
                      lines[i].flags, shown, lines[i].line);
        kva_plan_free(plan);
        kva_model_close(model);
    }
}

// An engine does not plan a model with these flags: its complaint holds `says`.
struct unit_refusal {
    const char *model, *engine, *flags;
    enum kva_status status;
    const char *says;
};

static inline void unit_check_refusals(struct kva_atlas *atlas, const struct unit_refusal *refusals, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct unit_refusal *refusal = &refusals[i];
        struct kva_model *model = unit_model(atlas, refusal->model);
        struct kva_error error = {0};
        struct kva_plan *plan = NULL;
        char room[512];
        const enum kva_status status =
            unit_try(atlas, model, refusal->engine, refusal->flags, room, sizeof room, &plan, &error);
        ck_assert_msg(status == refusal->status && strstr(error.text, refusal->says) != NULL, "%s %s %s: %d %s",
                      refusal->model, refusal->engine, refusal->flags, status, error.text);
        kva_model_close(model);
    }
}

// ---------------------------------------------------------------- configs that the catalogue has not

#define GEMMA4_SIX                                                                                                     \
    "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\","   \
    "\"full_attention\""
#define GEMMA4_E4B                                                                                                     \
    "{\"architectures\":[\"Gemma4ForConditionalGeneration\"],\"model_type\":\"gemma4\",\"text_config\":{"              \
    "\"model_type\":\"gemma4_text\",\"num_hidden_layers\":42,\"num_kv_shared_layers\":18,\"hidden_size\":2560,"        \
    "\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,\"global_head_dim\":512,"                    \
    "\"sliding_window\":512,\"max_position_embeddings\":131072,\"dtype\":\"bfloat16\",\"layer_types\":[" GEMMA4_SIX    \
    "," GEMMA4_SIX "," GEMMA4_SIX "," GEMMA4_SIX "," GEMMA4_SIX "," GEMMA4_SIX "," GEMMA4_SIX "]}}"

#define QWEN3_NEXT                                                                                                     \
    "{\"architectures\":[\"Qwen3NextForCausalLM\"],\"model_type\":\"qwen3_next\",\"num_hidden_layers\":48,"            \
    "\"hidden_size\":2048,\"num_attention_heads\":16,\"num_key_value_heads\":2,\"head_dim\":256,"                      \
    "\"full_attention_interval\":4,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"                         \
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,"                          \
    "\"mamba_ssm_dtype\":\"float32\",\"max_position_embeddings\":262144,\"torch_dtype\":\"bfloat16\"}"

#endif
