// The command line: a table of commands, one file each. Commands read the public API and hand what they got to
// report/; they compute nothing.
#ifndef KVA_CLI_CLI_H
#define KVA_CLI_CLI_H

#include "base/text.h"
#include "cli/options.h"

struct kva_command {
    const char *name;
    const char *arguments;  // "MODEL"
    const char *help;       // one line
    uint64_t flags;         // KVA_FLAG_BITs that it takes
    size_t min_arguments, max_arguments;
    int (*function)(struct kva_options *options);  // its exit status
};

int kva_cli_show(struct kva_options *options);
int kva_cli_plan(struct kva_options *options);
int kva_cli_stream(struct kva_options *options);  // plan - --ndjson
int kva_cli_explain(struct kva_options *options);
int kva_cli_run(struct kva_options *options);
int kva_cli_verify(struct kva_options *options);
int kva_cli_check(struct kva_options *options);
int kva_cli_engines(struct kva_options *options);
int kva_cli_fit(struct kva_options *options);
int kva_cli_gpus(struct kva_options *options);
int kva_cli_models(struct kva_options *options);

// Prints "kvatlas: <line>" on standard error. Returns the exit status.
int kva_cli_fail(const struct kva_error *error);

// How the flags say that a model is read.
struct kva_model_options kva_cli_how(const struct kva_options *options);

// The engines that a command answers for. names: NULL for the one that nobody named.
struct kva_cli_asked {
    const char *names[KVA_MAX_ENGINES];
    bool by_name[KVA_MAX_ENGINES];  // it was typed, and does not come from `all`
    size_t n;
};
enum kva_status kva_cli_asked(const struct kva_options *options, struct kva_cli_asked *asked, struct kva_error *error);

// Engines that refuse are kept with their reasons beside the answers of the others.
struct kva_cli_refusals {
    struct kva_refusal refusals[KVA_MAX_ENGINES];
    size_t n;
    enum kva_status partial;  // of the first engine that was named and refused; KVA_OK: none
};
// Keeps what asked->names[engine] said. Errors: KVA_MACHINE, which is no refusal.
enum kva_status kva_cli_refused(const struct kva_cli_asked *asked, size_t engine, const struct kva_error *error,
                                struct kva_cli_refusals *refusals);

// A plan for each engine that was asked. All of them refusing is an error.
struct kva_cli_plans {
    struct kva_plan *plans[KVA_MAX_ENGINES];
    size_t n_plans;
    struct kva_cli_refusals refused;
};
enum kva_status kva_cli_plans(const struct kva_options *options, struct kva_atlas *atlas, const struct kva_model *model,
                              struct kva_cli_plans *plans, struct kva_error *error);
void kva_cli_plans_free(struct kva_cli_plans *plans);  // also after an error
struct kva_plan_set kva_cli_plan_set(const struct kva_cli_plans *plans);

// The model that the first argument names, with its atlas. Release with kva_cli_close (either may be NULL).
enum kva_status kva_cli_open(const struct kva_options *options, struct kva_atlas **atlas, struct kva_model **model,
                             struct kva_error *error);
void kva_cli_close(struct kva_atlas *atlas, struct kva_model *model);

// Colour and bars only on a terminal, and never with NO_COLOR.
struct kva_report_style kva_cli_style(const struct kva_options *options);

// Writes a result to -o FILE or to standard output.
enum kva_status kva_cli_write(const struct kva_options *options, const struct kva_text *text, struct kva_error *error);

#endif
