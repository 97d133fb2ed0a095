// What the files of `check` share: the statements of a log that are compared, and one plan held against them.
#ifndef KVA_VERIFY_CHECK_H
#define KVA_VERIFY_CHECK_H

#include "verify/log.h"

struct kva_check_call {
    struct kva_atlas *atlas;
    const struct kva_model *model;
    struct kva_log *log;
    const struct kva_log_engine_part *part;
    struct kva_log_statement *statements;  // of one rank each, in the order of the log
    size_t n_statements;
    bool (*given)[KVA_MAX_PLACES];  // [n_statements]: taken from the log, so not compared

    // the size that the log gives rounded or not at all; NULL: nothing is searched
    const char *searched;
    bool bounded;
    uint64_t low, high;
};

// One plan beside the statements.
struct kva_check_attempt {
    struct kva_deployment deployment;
    struct kva_plan *plan;  // owned; NULL: `error` says why
    struct kva_error error;
    size_t shift;                  // predicted lines of an id that stand before the first one in the log
    size_t found_by, found_value;  // the statement that told the searched size; SIZE_MAX: none
    size_t matches, mismatches;
};

// ---------------------------------------------------------------- statements (check_statements.c)

// One list for all ranks: where ranks differ the one with the smallest pool decides, and a note says so.
enum kva_status kva_check_gather(struct kva_check_call *call, struct kva_error *error);

// What the plan prints in the place of one value; false: nothing.
bool kva_check_predicted(const struct kva_check_call *call, const struct kva_plan *plan, size_t shift, size_t statement,
                         size_t value, struct kva_quantity *quantity);
// The log prints a pool where the plan says that the engine refuses to start: no number of this statement can be right.
bool kva_check_refused(const struct kva_check_call *call, const struct kva_plan *plan, size_t statement);
// < 0: less is predicted than printed; 0: the same to the digit; > 0: more, or another text.
int kva_check_compare(const struct kva_log_value *value, const struct kva_quantity *quantity);
// The most predicted lines of one id beyond those that the log holds.
size_t kva_check_most_shift(const struct kva_check_call *call, const struct kva_plan *plan);

// ---------------------------------------------------------------- what to plan with (check_given.c)

// The flags that the log holds, then the caller's (which may be NULL) over them; contradictions are noted.
void kva_check_merge(struct kva_log *log, const struct kva_log_engine_part *part, const struct kva_deployment *asked,
                     struct kva_deployment *deployment);
// What nobody stated and the plan cannot know, from the log: marks it as given, or sets what is searched.
void kva_check_take_given(struct kva_check_call *call, struct kva_deployment *deployment);

// ---------------------------------------------------------------- attempts (check_attempt.c)

// Plans, looking for a searched size with which every other number comes out. Errors: KVA_MACHINE.
enum kva_status kva_check_try(const struct kva_check_call *call, const struct kva_deployment *deployment,
                              struct kva_check_attempt *attempt);
bool kva_check_matches(const struct kva_check_attempt *attempt);
void kva_check_attempt_free(struct kva_check_attempt *attempt);

// ---------------------------------------------------------------- versions (check_versions.c)

struct kva_check_candidates {
    const char **engines;  // "vllm@0.19.0"
    size_t n;
    bool known;  // somebody named the version
};

// asked: as --engine has it, or NULL. Errors: KVA_MACHINE.
enum kva_status kva_check_candidates(const struct kva_check_call *call, const char *asked,
                                     struct kva_check_candidates *candidates, struct kva_error *error);
// The first version under which every number comes out, else the first that can be planned; deployment->engine is set.
// Errors: those of kva_plan_make for the first, when none can be planned.
enum kva_status kva_check_try_candidates(const struct kva_check_call *call,
                                         const struct kva_check_candidates *candidates,
                                         struct kva_deployment *deployment, struct kva_check_attempt *best,
                                         struct kva_error *error);

// ---------------------------------------------------------------- explanations (check_explain.c)

// Versions that behave differently, oldest first: indexes into part->file->versions, of those for which `allowed`
// (NULL: all) holds, the newest of each kind. indexes: [file->n_versions].
size_t kva_check_eras(const struct kva_check_call *call, const bool *allowed, size_t *indexes);
const char *kva_check_engine_name(const struct kva_check_call *call, size_t version);  // "vllm@0.19.1"; NULL: no memory

// Lines that say which single change makes every number come out, into result->explanation.
enum kva_status kva_check_explain(const struct kva_check_call *call, const struct kva_deployment *deployment,
                                  struct kva_check_result *result, struct kva_error *error);

#endif
