// data/logs.yaml: how engines' logs are read beside the lines that data/engines/*.yaml holds: lines that tell what was
// started and how, what they say in the words of flags, and which numbers a plan cannot know and takes from the log.
#ifndef KVA_VERIFY_LOG_FACTS_H
#define KVA_VERIFY_LOG_FACTS_H

#include "model/atlas.h"

// Which of several lines that one process prints of the same thing counts.
enum kva_log_repeated {
    KVA_REPEATED_EACH,      // all: each tells of another pool
    KVA_REPEATED_SMALLEST,  // the smallest pool, which bounds all
    KVA_REPEATED_LAST,      // the last: those before were estimates
};

struct kva_log_engine {
    char *id, *name;
    char *searched;  // the flag of the size that a log gives rounded, or not at all; NULL: none
    char *device;    // the quantity that names a device: its lines sum up to a pool, and the name is not compared
    enum kva_log_repeated repeated;
};

// A line that data/engines does not hold. Quantities with a meaning of their own: version, build ("b" is put before
// it), model, arguments (Python's way to write a dictionary or an object). Those of a line `setting` are looked up
// among the settings; those of a line `pool` are compared with the plan's capacity.
struct kva_log_line {
    char *engine, *id, *text;
    char **references;
    unsigned n_references;
};

// key of an argument, or name of a quantity -> flag of the deployment. With `is` only for that value; with `set` the
// flag gets that instead of the value. A line of data/engines that holds nothing but such keys tells how the engine was
// started, and is no number to compare.
struct kva_log_setting {
    char *engine, *key, *is, *set;
    char *flag;  // NULL: it says nothing that other keys do not
    char *per;   // the key of what it is divided by: llama.cpp's n_ctx is of all sequences
};

// A number that the plan takes from the log where nobody stated it.
struct kva_log_given {
    char *engine, *line, *quantity, *flag;
    char *unit;  // "GiB": the number is rounded, any that prints so may be meant; NULL: exact
    char *set;   // with a line that holds no number: what the flag gets
};

// What to try when numbers differ.
struct kva_log_switch {
    char *engine, *flag;
    char **values;
    unsigned n_values;
};

struct kva_log_facts {
    struct kva_log_engine *engines;
    unsigned n_engines;
    struct kva_log_line *lines;
    unsigned n_lines;
    struct kva_log_setting *settings;
    unsigned n_settings;
    struct kva_log_given *given;
    unsigned n_given;
    struct kva_log_switch *switches;
    unsigned n_switches;
};

// Kept in the atlas. Errors: KVA_BAD_INPUT (a file that breaks its schema, a flag that no engine has), KVA_MACHINE.
enum kva_status kva_log_facts_read(struct kva_atlas *atlas, const struct kva_log_facts **facts,
                                   struct kva_error *error);

#endif
