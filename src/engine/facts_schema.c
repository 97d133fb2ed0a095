#include "engine/facts_schema.h"

#include "model/schema_words.h"

#define REFERENCES(type) NAMES("references", CYAML_FLAG_DEFAULT, type, references, n_references, 1)
#define RANGE(type) TEXT_OPTIONAL("since", type, since), TEXT_OPTIONAL("until", type, until)

static const cyaml_schema_field_t VERSION_FIELDS[] = {
    TEXT("version", struct kva_version_row, version),
    TEXT("date", struct kva_version_row, date),
    REFERENCES(struct kva_version_row),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t VERSION = MAPPING(struct kva_version_row, VERSION_FIELDS);

static const cyaml_schema_field_t VALUE_FIELDS[] = {
    RANGE(struct kva_value_row),
    TEXT("value", struct kva_value_row, value),
    REFERENCES(struct kva_value_row),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t VALUE = MAPPING(struct kva_value_row, VALUE_FIELDS);

static const cyaml_schema_field_t BEHAVIOUR_FIELDS[] = {
    TEXT("name", struct kva_behaviour_row, name),
    TEXT("about", struct kva_behaviour_row, about),
    LIST("values", struct kva_behaviour_row, values, n_values, &VALUE),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t BEHAVIOUR = MAPPING(struct kva_behaviour_row, BEHAVIOUR_FIELDS);

static const cyaml_schema_field_t RULE_FIELDS[] = {
    TEXT("name", struct kva_rule_row, name),
    NAMES("match", CYAML_FLAG_DEFAULT, struct kva_rule_row, match, n_match, 1),
    RANGE(struct kva_rule_row),
    TEXT("value", struct kva_rule_row, value),
    REFERENCES(struct kva_rule_row),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t RULE = MAPPING(struct kva_rule_row, RULE_FIELDS);

#define NUMBER(key, flags, type, member) CYAML_FIELD_UINT(key, flags, type, member)
static const cyaml_schema_field_t SIDE_FIELDS[] = {
    NUMBER("bits", CYAML_FLAG_DEFAULT, struct kva_side_format, bits),
    NUMBER("group", CYAML_FLAG_OPTIONAL, struct kva_side_format, group),
    NUMBER("group_bytes", CYAML_FLAG_OPTIONAL, struct kva_side_format, group_bytes),
    NUMBER("vector_bytes", CYAML_FLAG_OPTIONAL, struct kva_side_format, vector_bytes),
    CYAML_FIELD_END,
};

static const cyaml_schema_field_t KV_TYPE_FIELDS[] = {
    NAMES("names", CYAML_FLAG_DEFAULT, struct kva_kv_type, names, n_names, 1),
    RANGE(struct kva_kv_type),
    CYAML_FIELD_MAPPING("k", CYAML_FLAG_DEFAULT, struct kva_kv_type, k, SIDE_FIELDS),
    CYAML_FIELD_MAPPING("v", CYAML_FLAG_DEFAULT, struct kva_kv_type, v, SIDE_FIELDS),
    NUMBER("slot_multiple", CYAML_FLAG_OPTIONAL, struct kva_kv_type, slot_multiple),
    REFERENCES(struct kva_kv_type),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t KV_TYPE = MAPPING(struct kva_kv_type, KV_TYPE_FIELDS);

static const cyaml_schema_field_t LINE_FIELDS[] = {
    TEXT("id", struct kva_line_row, id),
    RANGE(struct kva_line_row),
    TEXT("text", struct kva_line_row, text),
    REFERENCES(struct kva_line_row),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t LINE = MAPPING(struct kva_line_row, LINE_FIELDS);

static const cyaml_schema_field_t ENGINE_FIELDS[] = {
    TEXT("id", struct kva_engine_file, id),
    TEXT("name", struct kva_engine_file, name),
    TEXT("summary", struct kva_engine_file, summary),
    LIST("versions", struct kva_engine_file, versions, n_versions, &VERSION),
    LIST("behaviours", struct kva_engine_file, behaviours, n_behaviours, &BEHAVIOUR),
    LIST_OPTIONAL("rules", struct kva_engine_file, rules, n_rules, &RULE),
    LIST_OPTIONAL("kv_types", struct kva_engine_file, kv_types, n_kv_types, &KV_TYPE),
    LIST_OPTIONAL("lines", struct kva_engine_file, lines, n_lines, &LINE),
    CYAML_FIELD_END,
};
const cyaml_schema_value_t kva_engine_schema = DOCUMENT(struct kva_engine_file, ENGINE_FIELDS);
