// One plan held against a log. Where the log tells a size only rounded, or not at all, one is looked for with which
// every other number comes out: all of them grow with it, so halving finds it.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "verify/check.h"

enum { NONE = -2, POWERS = 50, MOST_NARROWED = 24 };

static void set_searched(const struct kva_check_call *call, struct kva_deployment *deployment, uint64_t size)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, size);
    // a flag that takes a number keeps nothing of the text
    (void)kva_deployment_set(deployment, call->searched, text, NULL);
}

static struct kva_plan *plan_at(const struct kva_check_call *call, struct kva_check_attempt *attempt, uint64_t size)
{
    struct kva_plan *plan;
    struct kva_deployment deployment = attempt->deployment;
    if (call->searched != NULL)
        set_searched(call, &deployment, size);
    return kva_plan_make(call->atlas, call->model, &deployment, &plan, &attempt->error) == KVA_OK ? plan : NULL;
}

// How one value compares under a plan; NONE: it is not predicted.
static int compare(const struct kva_check_call *call, const struct kva_check_attempt *attempt,
                   const struct kva_plan *plan, size_t statement, size_t value)
{
    struct kva_quantity quantity;
    return plan != NULL && kva_check_predicted(call, plan, attempt->shift, statement, value, &quantity)
               ? kva_check_compare(&call->statements[statement].values[value], &quantity)
               : NONE;
}

static int compare_at(const struct kva_check_call *call, struct kva_check_attempt *attempt, uint64_t size,
                      size_t statement, size_t value)
{
    struct kva_plan *plan = plan_at(call, attempt, size);
    const int order = compare(call, attempt, plan, statement, value);
    kva_plan_free(plan);
    return order;
}

// The smallest size in (low, high] with which the value is at least `order`: 0, or 1. A size too small to plan with is
// below all.
static uint64_t first_at_least(const struct kva_check_call *call, struct kva_check_attempt *attempt, uint64_t low,
                               uint64_t high, size_t statement, size_t value, int order)
{
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (compare_at(call, attempt, middle, statement, value) >= order)
            high = middle;
        else
            low = middle;
    }
    return high;
}

struct range {
    uint64_t low, high;  // both are taken
    bool bounded;
    uint64_t nearest;  // to what does not come out; 0: all does
};

// Powers of two between which the value passes what was printed. false: it does not, or is the same at any size.
static bool bracket(const struct kva_check_call *call, struct kva_check_attempt *attempt, struct range *range,
                    size_t statement, size_t value)
{
    int order = NONE, first = NONE, at_least = -1, last = -1;
    for (int power = 0; power <= POWERS && order <= 0; power++) {
        order = compare_at(call, attempt, UINT64_C(1) << power, statement, value);
        if (order == NONE && first != NONE)
            break;
        first = first == NONE ? order : first;
        last = order != NONE ? power : last;
        at_least = order >= 0 && at_least < 0 ? power : at_least;
    }
    if (at_least < 0 || (first == 0 && order == 0))
        return false;
    range->low = at_least > 0 ? UINT64_C(1) << (at_least - 1) : 1;
    range->high = UINT64_C(1) << last;
    return true;
}

// Takes from the range what does not print as the log does; leaves it alone where nothing would be left.
static void narrow(const struct kva_check_call *call, struct kva_check_attempt *attempt, struct range *range,
                   size_t statement, size_t value)
{
    const bool unbounded = !range->bounded;
    struct range narrowed = *range;
    if (unbounded && !bracket(call, attempt, &narrowed, statement, value))
        return;
    const int low = compare_at(call, attempt, narrowed.low, statement, value);
    const int high = compare_at(call, attempt, narrowed.high, statement, value);
    if ((low == NONE && high == NONE) || low == 2 || high == 2 || (low == 0 && high == 0 && !unbounded))
        return;
    if (low > 0 || (high < 0 && high != NONE)) {
        if (range->nearest == 0 && !unbounded)
            range->nearest = low > 0 ? narrowed.low : narrowed.high;
        return;
    }
    uint64_t first = narrowed.low, last = narrowed.high;
    if (low != 0)
        first = first_at_least(call, attempt, narrowed.low, narrowed.high, statement, value, 0);
    if (compare_at(call, attempt, first, statement, value) != 0) {
        range->nearest = range->nearest > 0 ? range->nearest : first;
        return;
    }
    if (high != 0)
        last = first_at_least(call, attempt, first, narrowed.high, statement, value, 1) - 1;
    *range = (struct range){first, last, true, range->nearest};
    if (unbounded) {
        attempt->found_by = statement;
        attempt->found_value = value;
    }
}

static bool is_number(const struct kva_log_value *value)
{
    return value->kind == KVA_PLACE_COUNT || value->kind == KVA_PLACE_REAL;
}

static uint64_t search(const struct kva_check_call *call, struct kva_check_attempt *attempt)
{
    struct range range = {call->low, call->high, call->bounded, 0};
    size_t n = 0;
    for (size_t s = 0; s < call->n_statements; s++)
        for (size_t v = 0; v < call->statements[s].n_values && n < MOST_NARROWED; v++)
            if (!call->given[s][v] && is_number(&call->statements[s].values[v])) {
                narrow(call, attempt, &range, s, v);
                n++;
            }
    if (!range.bounded)
        return range.nearest;
    return range.nearest > 0 ? kva_max(range.low, kva_min(range.nearest, range.high)) : range.low;
}

// A number that says again what the engine was told: that it is printed proves nothing.
static bool is_told(const struct kva_check_call *call, size_t statement, size_t value)
{
    const struct kva_log_statement *stated = &call->statements[statement];
    for (unsigned g = 0; g < call->log->facts->n_given; g++) {
        const struct kva_log_given *given = &call->log->facts->given[g];
        if (given->quantity != NULL && strcmp(given->engine, call->part->id) == 0 &&
            strcmp(given->line, stated->id) == 0 && strcmp(given->quantity, stated->values[value].name) == 0)
            return true;
    }
    return false;
}

static void count(const struct kva_check_call *call, struct kva_check_attempt *attempt)
{
    attempt->matches = attempt->mismatches = 0;
    for (size_t s = 0; s < call->n_statements; s++)
        for (size_t v = 0; v < call->statements[s].n_values; v++) {
            if (call->given[s][v] || (s == attempt->found_by && v == attempt->found_value))
                continue;
            const int order = compare(call, attempt, attempt->plan, s, v);
            const bool refused = kva_check_refused(call, attempt->plan, s);
            attempt->matches += order == 0 && !refused && !is_told(call, s, v);
            attempt->mismatches += (order != 0 && order != NONE) || refused;
        }
}

// With `shift` predicted lines standing before those of the log.
static void try_shifted(const struct kva_check_call *call, const struct kva_deployment *deployment, size_t shift,
                        struct kva_check_attempt *attempt)
{
    *attempt = (struct kva_check_attempt){
        .deployment = *deployment, .shift = shift, .found_by = SIZE_MAX, .found_value = SIZE_MAX};
    if (call->searched != NULL) {
        const uint64_t size = search(call, attempt);
        if (size > 0)
            set_searched(call, &attempt->deployment, size);
    }
    if (kva_plan_make(call->atlas, call->model, &attempt->deployment, &attempt->plan, &attempt->error) == KVA_OK)
        count(call, attempt);
}

static bool better(const struct kva_check_attempt *a, const struct kva_check_attempt *b)
{
    if ((a->plan != NULL) != (b->plan != NULL))
        return a->plan != NULL;
    if (a->mismatches != b->mismatches)
        return a->mismatches < b->mismatches;
    return a->matches > b->matches;
}

enum kva_status kva_check_try(const struct kva_check_call *call, const struct kva_deployment *deployment,
                              struct kva_check_attempt *attempt)
{
    try_shifted(call, deployment, 0, attempt);
    const size_t most = attempt->plan != NULL ? kva_check_most_shift(call, attempt->plan) : 0;
    for (size_t shift = 1; shift <= most && !kva_check_matches(attempt); shift++) {
        struct kva_check_attempt shifted;
        try_shifted(call, deployment, shift, &shifted);
        const bool take = better(&shifted, attempt);
        kva_check_attempt_free(take ? attempt : &shifted);
        if (take)
            *attempt = shifted;
    }
    return attempt->plan == NULL && attempt->error.status == KVA_MACHINE ? KVA_MACHINE : KVA_OK;
}

bool kva_check_matches(const struct kva_check_attempt *attempt)
{
    return attempt->plan != NULL && attempt->mismatches == 0 && attempt->matches > 0;
}

void kva_check_attempt_free(struct kva_check_attempt *attempt)
{
    kva_plan_free(attempt->plan);
    attempt->plan = NULL;
}
