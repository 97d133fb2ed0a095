// What a log states, one list for all ranks, and what a plan says in the same places.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "verify/check.h"

enum { MOST_STATEMENTS = 256 };

// ---------------------------------------------------------------- ranks and repetitions

static bool same_values(const struct kva_log_statement *a, const struct kva_log_statement *b)
{
    if (strcmp(a->id, b->id) != 0 || a->n_values != b->n_values)
        return false;
    for (size_t v = 0; v < a->n_values; v++)
        if (strcmp(a->values[v].name, b->values[v].name) != 0 || strcmp(a->values[v].text, b->values[v].text) != 0)
            return false;
    return true;
}

// The size of the pool that a statement tells of: its first number.
static double pool(const struct kva_log_statement *statement)
{
    for (size_t v = 0; v < statement->n_values; v++)
        if (statement->values[v].kind == KVA_PLACE_COUNT || statement->values[v].kind == KVA_PLACE_REAL)
            return statement->values[v].real;
    return 0;
}

// Does every rank say the same for this id? `rank` is then any of them.
static bool ranks_agree(const struct kva_log_engine_part *part, const char *id, size_t rank)
{
    for (size_t s = 0; s < part->n_statements; s++) {
        bool said = part->statements[s].rank == rank || strcmp(part->statements[s].id, id) != 0;
        for (size_t o = 0; o < part->n_statements && !said; o++)
            said = part->statements[o].rank == rank && same_values(&part->statements[s], &part->statements[o]);
        if (!said)
            return false;
    }
    return true;
}

// The rank that decides for an id: the one with the smallest pool.
static size_t deciding_rank(struct kva_check_call *call, const char *id)
{
    const struct kva_log_engine_part *part = call->part;
    size_t decides = SIZE_MAX, n_ranks = 0;
    double smallest = INFINITY;
    for (size_t r = 0; r < call->log->n_ranks; r++) {
        double sum = 0;
        bool says = false;
        for (size_t s = 0; s < part->n_statements; s++)
            if (part->statements[s].rank == r && strcmp(part->statements[s].id, id) == 0) {
                sum += pool(&part->statements[s]);
                says = true;
            }
        n_ranks += says;
        if (says && sum < smallest) {
            smallest = sum;
            decides = r;
        }
    }
    if (n_ranks > 1 && !ranks_agree(part, id, decides))
        kva_log_note(call->log, "the ranks differ in '%s': %s has the smallest and decides", id,
                     *call->log->ranks[decides] != '\0' ? call->log->ranks[decides] : "the one without a name");
    return decides;
}

// Does "CUDA0+CPU" hold this device?
static bool holds_device(const char *devices, const char *device)
{
    const size_t length = strlen(device);
    for (const char *at = devices; at != NULL; at = strchr(at, '+') != NULL ? strchr(at, '+') + 1 : NULL)
        if (strncmp(at, device, length) == 0 && (at[length] == '+' || at[length] == '\0'))
            return true;
    return false;
}

static const char *device_name(const struct kva_check_call *call)
{
    return call->part->facts != NULL && call->part->facts->device != NULL ? call->part->facts->device : "";
}

// The value that lines of several devices sum up to: the first number behind the device; 0: none.
static size_t summed_value(const struct kva_check_call *call, const struct kva_log_statement *statement)
{
    const bool devices = statement->n_values > 1 && strcmp(statement->values[0].name, device_name(call)) == 0;
    return devices && statement->values[1].kind == KVA_PLACE_REAL ? 1 : 0;
}

// llama.cpp prints a buffer of each device: what they sum up to is a pool. A device that comes again starts another.
static bool is_more_of(const struct kva_check_call *call, const struct kva_log_statement *sum,
                       const struct kva_log_statement *more)
{
    return strcmp(sum->id, more->id) == 0 && summed_value(call, sum) > 0 && summed_value(call, more) > 0 &&
           (sum->n_values < 3 || strcmp(sum->values[2].text, more->values[2].text) == 0) &&
           !holds_device(sum->values[0].text, more->values[0].text);
}

static enum kva_status add_device(struct kva_check_call *call, struct kva_log_statement *sum,
                                  const struct kva_log_statement *more, struct kva_error *error)
{
    struct kva_arena *arena = call->log->arena;
    sum->values[1].real += more->values[1].real;
    sum->values[1].parts++;
    sum->values[0].text = kva_arena_printf(arena, "%s+%s", sum->values[0].text, more->values[0].text);
    sum->values[1].text = kva_arena_printf(arena, "%.*f", sum->values[1].decimals, sum->values[1].real);
    return sum->values[0].text != NULL && sum->values[1].text != NULL ? KVA_OK : kva_fail_memory(error, 64);
}

// Of statements of one rank: those that are superseded go.
static bool supersedes(const struct kva_check_call *call, struct kva_log_statement *kept,
                       const struct kva_log_statement *next)
{
    if (strcmp(kept->id, next->id) != 0 || call->part->facts == NULL)
        return false;
    switch (call->part->facts->repeated) {
    case KVA_REPEATED_LAST:
        *kept = *next;
        return true;
    case KVA_REPEATED_SMALLEST:
        if (pool(next) < pool(kept))
            *kept = *next;
        return true;
    default:
        return false;
    }
}

// A statement of the rank that decides: of its own, or one with others before it.
static enum kva_status take(struct kva_check_call *call, const struct kva_log_statement *statement,
                            struct kva_error *error)
{
    for (size_t k = 0; k < call->n_statements && !statement->tells; k++)
        if (supersedes(call, &call->statements[k], statement))
            return KVA_OK;
    struct kva_log_statement *last = call->n_statements > 0 ? &call->statements[call->n_statements - 1] : NULL;
    if (last != NULL && is_more_of(call, last, statement))
        return add_device(call, last, statement, error);
    if (call->n_statements == MOST_STATEMENTS)
        return kva_fail(error, KVA_BAD_INPUT, NULL, statement->id,
                        "more than %d different lines of one process tell of cache sizes; the log of one start was "
                        "expected",
                        MOST_STATEMENTS);
    call->statements[call->n_statements++] = *statement;
    return KVA_OK;
}

enum kva_status kva_check_gather(struct kva_check_call *call, struct kva_error *error)
{
    const struct kva_log_engine_part *part = call->part;
    struct kva_arena *arena = call->log->arena;
    size_t *decides = kva_arena_alloc(arena, part->n_statements + 1, sizeof *decides);  // [n_statements] the rank
    call->statements = kva_arena_alloc(arena, part->n_statements + 1, sizeof *call->statements);
    call->given = kva_arena_alloc(arena, part->n_statements + 1, sizeof *call->given);
    if (call->statements == NULL || call->given == NULL || decides == NULL)
        return kva_fail_memory(error, part->n_statements * sizeof *call->statements);
    enum kva_status status = KVA_OK;
    for (size_t s = 0; status == KVA_OK && s < part->n_statements; s++) {
        const struct kva_log_statement *statement = &part->statements[s];
        size_t first = 0;  // of this id
        while (strcmp(part->statements[first].id, statement->id) != 0)
            first++;
        decides[s] = first < s ? decides[first] : deciding_rank(call, statement->id);
        if (statement->rank == decides[s])
            status = take(call, statement, error);
    }
    return status;
}

// ---------------------------------------------------------------- what a plan prints

static bool same_quantities(const struct kva_print_line *a, const struct kva_print_line *b)
{
    if (a->n_quantities != b->n_quantities || strcmp(a->id, b->id) != 0)
        return false;
    for (size_t q = 0; q < a->n_quantities; q++) {
        const struct kva_quantity *qa = &a->quantities[q], *qb = &b->quantities[q];
        if (strcmp(qa->name, qb->name) != 0 || qa->type != qb->type || qa->count != qb->count || qa->real != qb->real ||
            (qa->type == KVA_QUANTITY_TEXT && strcmp(qa->text, qb->text) != 0))
            return false;
    }
    return true;
}

// A line that an earlier one repeats: the second template of one id, or a pool as large as another.
static bool repeats(const struct kva_plan *plan, size_t line)
{
    for (size_t before = 0; before < line; before++)
        if (same_quantities(&plan->prints[before], &plan->prints[line]))
            return true;
    return false;
}

static size_t count_stated(const struct kva_check_call *call, const char *id, size_t until)
{
    size_t n = 0;
    for (size_t s = 0; s < until; s++)
        n += strcmp(call->statements[s].id, id) == 0;
    return n;
}

// What older wordings call the pool.
static bool of_capacity(const struct kva_plan *plan, const char *name, struct kva_quantity *quantity)
{
    // where all pools have blocks of one size they share them
    uint64_t blocks =
        plan->n_pools > 0 && plan->pools[0].page_bytes > 0 ? plan->capacity.reserved / plan->pools[0].page_bytes : 0;
    for (size_t p = 1; p < plan->n_pools; p++)
        blocks = plan->pools[p].page_bytes == plan->pools[0].page_bytes ? blocks : 0;
    *quantity = kva_count_of(name, KVA_UNKNOWN);
    if (!plan->capacity.known)
        return false;
    if (strcmp(name, "tokens") == 0)
        *quantity = kva_count_of(name, plan->capacity.tokens);
    else if (strcmp(name, "blocks") == 0 && blocks > 0)
        *quantity = kva_count_of(name, blocks);
    else if (strcmp(name, "bytes") == 0)
        *quantity = kva_count_of(name, plan->capacity.reserved);
    else if (strcmp(name, "budget") == 0)
        *quantity = kva_real_of(name, (double)plan->capacity.budget / 0x1p30);
    return quantity->type == KVA_QUANTITY_REAL || quantity->count != KVA_UNKNOWN;
}

// What the words with which the plan says that the engine refuses hold for a line `id`: the value `name`, or with NULL
// anything.
static bool of_refusal(const struct kva_check_call *call, const struct kva_plan *plan, const char *id, const char *name,
                       struct kva_quantity *quantity)
{
    const struct kva_log_vocabulary *vocabulary = call->log->vocabulary;
    struct kva_line_value values[KVA_MAX_PLACES];
    struct kva_line_found found;
    for (size_t k = 0; plan->capacity.refusal != NULL && k < vocabulary->n_known; k++) {
        const struct kva_log_known *known = &vocabulary->known[k];
        if (&call->log->engines[known->engine] != call->part || strcmp(known->id, id) != 0 ||
            !kva_line_match(&known->pattern, plan->capacity.refusal, strlen(plan->capacity.refusal), values, &found))
            continue;
        for (size_t p = 0; p < known->pattern.n_places && name != NULL; p++)
            if (strcmp(known->pattern.places[p].name, name) == 0) {
                *quantity = known->pattern.places[p].kind == KVA_PLACE_COUNT ? kva_count_of(name, values[p].count)
                                                                             : kva_real_of(name, values[p].real);
                return true;
            }
        return name == NULL;
    }
    return false;
}

// Any line that names it: older engines say in one line what newer ones say in another.
static bool of_any_line(const struct kva_plan *plan, const char *name, struct kva_quantity *quantity)
{
    for (size_t l = 0; l < plan->n_prints; l++)
        for (size_t q = 0; q < plan->prints[l].n_quantities; q++)
            if (strcmp(plan->prints[l].quantities[q].name, name) == 0) {
                *quantity = plan->prints[l].quantities[q];
                return true;
            }
    return false;
}

static const struct kva_quantity *quantity_of(const struct kva_print_line *line, const char *name)
{
    for (size_t q = 0; q < line->n_quantities; q++)
        if (strcmp(line->quantities[q].name, name) == 0)
            return &line->quantities[q];
    return NULL;
}

// The next predicted thing of `id` from line *at on: a line, or what the lines of several devices sum up to.
struct predicted {
    const struct kva_print_line *line;
    double more;  // of the other devices
};

static bool next_predicted(const struct kva_check_call *call, const struct kva_plan *plan, const char *id, size_t *at,
                           struct predicted *predicted)
{
    char devices[512] = "";
    *predicted = (struct predicted){0};
    for (; *at < plan->n_prints; ++*at) {
        const struct kva_print_line *line = &plan->prints[*at];
        if (strcmp(line->id, id) != 0 || repeats(plan, *at))
            continue;
        const struct kva_quantity *device = quantity_of(line, device_name(call));
        if (predicted->line != NULL && (device == NULL || holds_device(devices, device->text)))
            return true;
        if (predicted->line == NULL)
            predicted->line = line;
        else if (line->n_quantities > 1)
            predicted->more += line->quantities[1].real;
        if (device != NULL) {
            const size_t length = strlen(devices);
            snprintf(devices + length, sizeof devices - length, "%s%s", length > 0 ? "+" : "", device->text);
        }
    }
    return predicted->line != NULL;
}

static size_t count_printed(const struct kva_check_call *call, const struct kva_plan *plan, const char *id)
{
    size_t n = 0, at = 0;
    for (struct predicted predicted; next_predicted(call, plan, id, &at, &predicted);)
        n++;
    return n;
}

size_t kva_check_most_shift(const struct kva_check_call *call, const struct kva_plan *plan)
{
    size_t most = 0;
    for (size_t s = 0; s < call->n_statements; s++) {
        const size_t printed = count_printed(call, plan, call->statements[s].id);
        const size_t stated = count_stated(call, call->statements[s].id, call->n_statements);
        most = kva_max(most, printed > stated ? printed - stated : 0);
    }
    return most;
}

bool kva_check_predicted(const struct kva_check_call *call, const struct kva_plan *plan, size_t shift, size_t statement,
                         size_t value, struct kva_quantity *quantity)
{
    const struct kva_log_statement *stated = &call->statements[statement];
    const char *name = stated->values[value].name;
    const size_t printed = count_printed(call, plan, stated->id);
    if (strcmp(name, device_name(call)) == 0)
        return false;
    if (printed == 0 && of_refusal(call, plan, stated->id, name, quantity))
        return true;
    if (stated->tells || printed == 0)
        return of_any_line(plan, name, quantity) || (stated->tells && of_capacity(plan, name, quantity));
    const size_t before = count_stated(call, stated->id, statement);
    const size_t n = count_stated(call, stated->id, call->n_statements);
    size_t wanted = before + (printed > n ? kva_min(shift, printed - n) : 0), at = 0;
    for (struct predicted predicted; next_predicted(call, plan, stated->id, &at, &predicted); wanted--) {
        if (wanted > 0)
            continue;
        const struct kva_quantity *found = quantity_of(predicted.line, name);
        if (found == NULL)
            return false;
        *quantity = *found;
        if (value > 0 && value == summed_value(call, stated))
            quantity->real += predicted.more;
        return true;
    }
    return false;
}

bool kva_check_refused(const struct kva_check_call *call, const struct kva_plan *plan, size_t statement)
{
    const struct kva_log_statement *stated = &call->statements[statement];
    if (plan->capacity.refusal == NULL || stated->tells || count_printed(call, plan, stated->id) > 0)
        return false;
    for (size_t s = 0; s < call->n_statements; s++)  // the log holds the refusal too
        if (of_refusal(call, plan, call->statements[s].id, NULL, NULL))
            return false;
    return true;
}

// ---------------------------------------------------------------- comparison

static int decimals_of(const char *text)
{
    const char *point = strchr(text, '.');
    return point != NULL ? (int)strlen(point + 1) : 0;
}

static int compare_reals(double predicted, double printed, int decimals, unsigned parts)
{
    char a[400], b[400];
    snprintf(a, sizeof a, "%.*f", decimals, predicted);
    snprintf(b, sizeof b, "%.*f", decimals, printed);
    if (strcmp(a, b) == 0 || (parts > 1 && fabs(predicted - printed) <= (parts + 1) * 0.5 * pow(10, -decimals)))
        return 0;
    return predicted < printed ? -1 : 1;
}

int kva_check_compare(const struct kva_log_value *value, const struct kva_quantity *quantity)
{
    const double real = quantity->type == KVA_QUANTITY_COUNT ? (double)quantity->count : quantity->real;
    if (quantity->type == KVA_QUANTITY_TEXT)
        return quantity->text != NULL && strcmp(quantity->text, value->text) == 0 ? 0 : 2;
    switch (value->kind) {
    case KVA_PLACE_COUNT:
        if (quantity->type == KVA_QUANTITY_COUNT && value->count != KVA_UNKNOWN)
            return (quantity->count > value->count) - (quantity->count < value->count);
        return compare_reals(real, value->real, 0, 1);
    case KVA_PLACE_REAL:
        return compare_reals(real, value->real, value->decimals, value->parts);
    default:
        return compare_reals(real, value->real, decimals_of(value->text), 1);
    }
}
