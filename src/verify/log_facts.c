#include "verify/log_facts.h"

#include <string.h>

#include "base/error.h"
#include "model/schema_words.h"
#include "model/yaml.h"

static const cyaml_strval_t REPEATED[] = {
    {"each", KVA_REPEATED_EACH}, {"smallest", KVA_REPEATED_SMALLEST}, {"last", KVA_REPEATED_LAST}};

static const cyaml_schema_field_t ENGINE_FIELDS[] = {
    TEXT("id", struct kva_log_engine, id),
    TEXT("name", struct kva_log_engine, name),
    TEXT_OPTIONAL("searched", struct kva_log_engine, searched),
    TEXT_OPTIONAL("device", struct kva_log_engine, device),
    CHOICE("repeated", CYAML_FLAG_DEFAULT, struct kva_log_engine, repeated, REPEATED),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t ENGINE = MAPPING(struct kva_log_engine, ENGINE_FIELDS);

static const cyaml_schema_field_t LINE_FIELDS[] = {
    TEXT("engine", struct kva_log_line, engine),
    TEXT("id", struct kva_log_line, id),
    TEXT("text", struct kva_log_line, text),
    NAMES("references", CYAML_FLAG_DEFAULT, struct kva_log_line, references, n_references, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t LINE = MAPPING(struct kva_log_line, LINE_FIELDS);

static const cyaml_schema_field_t SETTING_FIELDS[] = {
    TEXT("engine", struct kva_log_setting, engine),
    TEXT("key", struct kva_log_setting, key),
    TEXT_OPTIONAL("flag", struct kva_log_setting, flag),
    TEXT_OPTIONAL("is", struct kva_log_setting, is),
    TEXT_OPTIONAL("set", struct kva_log_setting, set),
    TEXT_OPTIONAL("per", struct kva_log_setting, per),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t SETTING = MAPPING(struct kva_log_setting, SETTING_FIELDS);

static const cyaml_schema_field_t GIVEN_FIELDS[] = {
    TEXT("engine", struct kva_log_given, engine),
    TEXT("line", struct kva_log_given, line),
    TEXT_OPTIONAL("quantity", struct kva_log_given, quantity),
    TEXT("flag", struct kva_log_given, flag),
    TEXT_OPTIONAL("unit", struct kva_log_given, unit),
    TEXT_OPTIONAL("set", struct kva_log_given, set),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t GIVEN = MAPPING(struct kva_log_given, GIVEN_FIELDS);

static const cyaml_schema_field_t SWITCH_FIELDS[] = {
    TEXT("engine", struct kva_log_switch, engine),
    TEXT("flag", struct kva_log_switch, flag),
    NAMES("values", CYAML_FLAG_DEFAULT, struct kva_log_switch, values, n_values, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t SWITCH = MAPPING(struct kva_log_switch, SWITCH_FIELDS);

static const cyaml_schema_field_t FACT_FIELDS[] = {
    LIST("engines", struct kva_log_facts, engines, n_engines, &ENGINE),
    LIST("lines", struct kva_log_facts, lines, n_lines, &LINE),
    LIST("settings", struct kva_log_facts, settings, n_settings, &SETTING),
    LIST("given", struct kva_log_facts, given, n_given, &GIVEN),
    LIST("switches", struct kva_log_facts, switches, n_switches, &SWITCH),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t SCHEMA = DOCUMENT(struct kva_log_facts, FACT_FIELDS);

// ---------------------------------------------------------------- checks

struct checked {
    struct kva_atlas *atlas;
    const struct kva_atlas_file *source;
    const struct kva_log_facts *facts;
    struct kva_error *error;
};

static enum kva_status wrong(const struct checked *checked, const char *key, const char *what, const char *value)
{
    return kva_yaml_wrong(checked->source, key, what, value, checked->error);
}

static enum kva_status check_engine(const struct checked *checked, const char *engine)
{
    for (unsigned e = 0; e < checked->facts->n_engines; e++)
        if (strcmp(checked->facts->engines[e].id, engine) == 0)
            return KVA_OK;
    return wrong(checked, "engine", "is not one of this file's engines", engine);
}

static enum kva_status check_flag(const struct checked *checked, const char *flag)
{
    bool negated;
    return flag == NULL || kva_deployment_flag_find(flag, &negated) != NULL
               ? KVA_OK
               : wrong(checked, "flag", "is not a flag of the deployment", flag);
}

static enum kva_status check_row(const struct checked *checked, const char *engine, const char *flag)
{
    enum kva_status status = check_engine(checked, engine);
    return status == KVA_OK ? check_flag(checked, flag) : status;
}

static enum kva_status check_lines(const struct checked *checked)
{
    for (unsigned l = 0; l < checked->facts->n_lines; l++) {
        const struct kva_log_line *line = &checked->facts->lines[l];
        const char *missing;
        enum kva_status status = check_engine(checked, line->engine);
        if (status == KVA_OK)
            status = kva_atlas_missing_reference(checked->atlas, line->references, line->n_references, &missing,
                                                 checked->error);
        if (status == KVA_OK && missing != NULL)
            status = wrong(checked, "references", "is not the id of a reference in references.yaml", missing);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static enum kva_status check_facts(const struct checked *checked)
{
    const struct kva_log_facts *facts = checked->facts;
    enum kva_status status = check_lines(checked);
    for (unsigned e = 0; status == KVA_OK && e < facts->n_engines; e++)
        if (facts->engines[e].searched != NULL)
            status = check_flag(checked, facts->engines[e].searched);
    for (unsigned s = 0; status == KVA_OK && s < facts->n_settings; s++)
        status = check_row(checked, facts->settings[s].engine, facts->settings[s].flag);
    for (unsigned g = 0; status == KVA_OK && g < facts->n_given; g++) {
        const struct kva_log_given *given = &facts->given[g];
        status = check_row(checked, given->engine, given->flag);
        if (status == KVA_OK && (given->quantity == NULL) != (given->set != NULL))
            status = wrong(checked, "quantity", "gives either a quantity or what to set", given->line);
        if (status == KVA_OK && given->unit != NULL && strcmp(given->unit, "GiB") != 0)
            status = wrong(checked, "unit", "is not a unit; GiB is", given->unit);
    }
    for (unsigned s = 0; status == KVA_OK && s < facts->n_switches; s++)
        status = check_row(checked, facts->switches[s].engine, facts->switches[s].flag);
    return status;
}

static void release(void *kept)
{
    kva_yaml_free(&SCHEMA, kept);
}

static enum kva_status check_file(struct kva_atlas *atlas, const struct kva_atlas_file *file, const void *loaded,
                                  struct kva_error *error)
{
    return check_facts(&(struct checked){atlas, file, loaded, error});
}

enum kva_status kva_log_facts_read(struct kva_atlas *atlas, const struct kva_log_facts **facts, struct kva_error *error)
{
    static const struct kva_yaml_kept KEPT = {"logs", "logs.yaml", &SCHEMA, release, check_file};
    const void *loaded;
    const enum kva_status status = kva_yaml_keep(atlas, &KEPT, &loaded, error);
    *facts = loaded;
    return status;
}
