// Writers: what the program says, in each format. They format and they do not compute; what they print is in the model
// and the plan. Text goes into a struct kva_text, which the caller frees.
#ifndef KVA_REPORT_REPORT_H
#define KVA_REPORT_REPORT_H

#include "base/text.h"
#include "kvatlas.h"

enum kva_format { KVA_FORMAT_TEXT, KVA_FORMAT_JSON, KVA_FORMAT_MARKDOWN };

struct kva_report_style {
    enum kva_format format;
    bool terminal;  // bars
    bool colour;
    bool layers;   // each layer of a plan
    bool why;      // every value of a model
    bool compact;  // JSON on one line
};

// What each layer of a model caches, and why. plan: at the context limit, for the bytes that a token adds; NULL when
// the config states no limit.
enum kva_status kva_report_show(const struct kva_model *model, const struct kva_plan *plan,
                                const struct kva_report_style *style, struct kva_text *out, struct kva_error *error);

// An engine that did not plan the model, and why.
struct kva_refusal {
    const char *engine;
    struct kva_error error;
};

// One plan, or several of one model side by side, with the engines that refused it.
struct kva_plan_set {
    struct kva_plan *const *plans;
    size_t n_plans;
    const struct kva_refusal *refusals;
    size_t n_refusals;
};
enum kva_status kva_report_plans(const struct kva_plan_set *set, const struct kva_report_style *style,
                                 struct kva_text *out, struct kva_error *error);

// The engines that there are; of a single one everything that is known.
enum kva_status kva_report_engines(struct kva_engine_info *const *infos, size_t n_infos,
                                   const struct kva_report_style *style, struct kva_text *out, struct kva_error *error);

// Whether a model fits, under one engine or under several side by side, with the engines that refused it.
struct kva_fit_set {
    struct kva_fit *const *fits;
    size_t n_fits;
    const struct kva_refusal *refusals;
    size_t n_refusals;
};
enum kva_status kva_report_fits(const struct kva_fit_set *set, const struct kva_report_style *style,
                                struct kva_text *out, struct kva_error *error);

// The accelerators of the catalogue.
enum kva_status kva_report_gpus(const struct kva_gpu *const *gpus, size_t n_gpus, const struct kva_report_style *style,
                                struct kva_text *out, struct kva_error *error);

// A line of a stream that could not be planned: {"schema":"kvatlas/error/1",...} on one line. id may be NULL.
enum kva_status kva_report_bad_line(uint64_t line, const char *id, const struct kva_error *bad, struct kva_text *out,
                                    struct kva_error *error);

// The models of the catalogue.
enum kva_status kva_report_models(const struct kva_catalogue *catalogue, const struct kva_report_style *style,
                                  struct kva_text *out, struct kva_error *error);

// The formula of every number of a plan.
enum kva_status kva_report_explain(const struct kva_plan *plan, const struct kva_report_style *style,
                                   struct kva_text *out, struct kva_error *error);

// A log beside the plan, number by number; and the same for CI.
enum kva_status kva_report_check(const struct kva_check_result *result, const struct kva_report_style *style,
                                 struct kva_text *out, struct kva_error *error);
enum kva_status kva_report_check_junit(const struct kva_check_result *result, struct kva_text *out,
                                       struct kva_error *error);

#endif
