// Short words for libcyaml's tables of fields.
#ifndef KVA_MODEL_SCHEMA_WORDS_H
#define KVA_MODEL_SCHEMA_WORDS_H

#include <cyaml/cyaml.h>

#define COUNT_OF(array) ((unsigned)(sizeof(array) / sizeof *(array)))
#define MANY CYAML_UNLIMITED
#define TEXT(key, type, member) CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, member, 1, MANY)
#define TEXT_OPTIONAL(key, type, member)                                                                               \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, 0, MANY)
#define NAMES(key, flags, type, member, count, minimum)                                                                \
    CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | (flags), type, member, count, &kva_yaml_name, minimum, MANY)
#define LIST(key, type, member, count, entry)                                                                          \
    CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER, type, member, count, entry, 1, MANY)
#define LIST_OPTIONAL(key, type, member, count, entry)                                                                 \
    CYAML_FIELD_SEQUENCE_COUNT(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, member, count, entry, 0, MANY)
#define FLAG_OPTIONAL(key, type, member) CYAML_FIELD_BOOL(key, CYAML_FLAG_OPTIONAL, type, member)
#define CHOICE(key, flags, type, member, words)                                                                        \
    CYAML_FIELD_ENUM(key, CYAML_FLAG_STRICT | (flags), type, member, words, COUNT_OF(words))
// One entry of a list; a whole file.
#define MAPPING(type, fields)                                                                                          \
    {                                                                                                                  \
        CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, type, fields)                                                          \
    }
#define DOCUMENT(type, fields)                                                                                         \
    {                                                                                                                  \
        CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, type, fields)                                                          \
    }

extern const cyaml_schema_value_t kva_yaml_name;  // one text of a list

#endif
