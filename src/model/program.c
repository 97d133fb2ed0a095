// Runs compiled formulas, and keeps them.
#include "model/program.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

struct machine {
    const struct kva_program *program;
    const struct kva_scope *scope;
    struct kva_error *error;
    enum kva_status status;
};

static int64_t fail(struct machine *m, const struct kva_op *op, const char *what)
{
    if (m->status == KVA_OK)
        m->status = kva_fail(m->error, KVA_BAD_INPUT, NULL, m->program->formula, "%s at character %u of the formula",
                             what, op->at + 1);
    return 0;
}

// ---------------------------------------------------------------- arithmetic

static int64_t divide(struct machine *m, const struct kva_op *op, int64_t a, int64_t b)
{
    if (b == 0)
        return fail(m, op, "a division by zero");
    if (a == INT64_MIN && b == -1)
        return fail(m, op, "a quotient beyond 64 bits");
    // the quotient rounded down and the remainder with the divisor's sign, as Python's // and % have them
    int64_t quotient = a / b, remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        quotient -= 1;
        remainder += b;
    }
    return op->code == KVA_OP_REMAINDER ? remainder : quotient + (op->code == KVA_OP_CEIL_DIV && remainder != 0);
}

static int64_t binary(struct machine *m, const struct kva_op *op, int64_t a, int64_t b)
{
    int64_t result;
    switch (op->code) {
    case KVA_OP_ADD:
        return __builtin_add_overflow(a, b, &result) ? fail(m, op, "a sum beyond 64 bits") : result;
    case KVA_OP_SUBTRACT:
        return __builtin_sub_overflow(a, b, &result) ? fail(m, op, "a difference beyond 64 bits") : result;
    case KVA_OP_MULTIPLY:
        return __builtin_mul_overflow(a, b, &result) ? fail(m, op, "a product beyond 64 bits") : result;
    case KVA_OP_MIN:
        return a < b ? a : b;
    case KVA_OP_MAX:
        return a > b ? a : b;
    case KVA_OP_EQUAL:
        return a == b;
    case KVA_OP_NOT_EQUAL:
        return a != b;
    case KVA_OP_AT_MOST:
        return a <= b;
    case KVA_OP_AT_LEAST:
        return a >= b;
    case KVA_OP_LESS:
        return a < b;
    case KVA_OP_GREATER:
        return a > b;
    default:
        return divide(m, op, a, b);
    }
}

// ---------------------------------------------------------------- values

static const struct kva_value *value_of(struct machine *m, const struct kva_op *op)
{
    if (op->slot < m->scope->n_values)
        return &m->scope->values[op->slot];
    fail(m, op, "a name that is not known yet");
    return NULL;
}

static int64_t count_of(struct machine *m, const struct kva_op *op)
{
    const struct kva_value *value = value_of(m, op);
    if (value == NULL)
        return 0;
    if ((value->type != KVA_COUNT && value->type != KVA_FLAG) || value->count > INT64_MAX) {
        if (m->status == KVA_OK)
            m->status = kva_fail(m->error, KVA_BAD_INPUT, NULL, m->program->formula,
                                 value->type == KVA_COUNT ? "%s is beyond 64 bits" : "%s is not a count", value->name);
        return 0;
    }
    return (int64_t)value->count;
}

static bool same_text(const struct kva_op *op, const char *text)
{
    return strncmp(text, op->text, op->length) == 0 && text[op->length] == '\0';
}

static bool item_equals(const struct kva_op *op, const struct kva_item *item, int64_t number)
{
    return op->text != NULL ? item->type == KVA_ITEM_TEXT && same_text(op, item->text)
                            : item->type == KVA_ITEM_COUNT && item->count == number;
}

static int64_t on_list(struct machine *m, const struct kva_op *op, const int64_t *arguments)
{
    const struct kva_value *list = value_of(m, op);
    if (list == NULL)
        return 0;
    if (list->type != KVA_LIST)
        return fail(m, op, "a function of lists, of a key that is none,");
    const bool inside = op->n_arguments > 0 && arguments[0] >= 0 && (uint64_t)arguments[0] < list->count;
    const struct kva_item *item = inside ? &list->items[arguments[0]] : NULL;
    int64_t matches = 0;
    switch (op->code) {
    case KVA_OP_LENGTH:
        return (int64_t)list->count;
    case KVA_OP_HAS_ITEM:
        return item != NULL && item->type != KVA_ITEM_NULL;
    case KVA_OP_ITEM_IS:
        return item != NULL && item->type == KVA_ITEM_TEXT && same_text(op, item->text);
    case KVA_OP_ITEM:
        if (item != NULL && item->type == KVA_ITEM_COUNT)
            return item->count;
        if (op->n_arguments > 1 && (item == NULL || item->type == KVA_ITEM_NULL))
            return arguments[1];
        if (m->status == KVA_OK)
            m->status =
                kva_fail(m->error, KVA_BAD_INPUT, NULL, list->key,
                         item == NULL ? "has no entry %lld" : "entry %lld is not an integer", (long long)arguments[0]);
        return 0;
    default:  // contains, count
        for (uint64_t i = 0; i < list->count; i++) {
            if (op->text == NULL && list->items[i].type == KVA_ITEM_TEXT && m->status == KVA_OK)
                m->status = kva_fail(m->error, KVA_BAD_INPUT, NULL, list->key,
                                     "entry %llu is the text \"%.40s\", integers were expected", (unsigned long long)i,
                                     list->items[i].text);
            matches += item_equals(op, &list->items[i], op->n_arguments > 0 ? arguments[0] : 0);
        }
        return op->code == KVA_OP_COUNT ? matches : matches > 0;
    }
}

static int64_t on_key(struct machine *m, const struct kva_op *op, const int64_t *arguments)
{
    const struct kva_value *value = value_of(m, op);
    if (value == NULL)
        return 0;
    switch (op->code) {
    case KVA_OP_HAS:
        return value->source == KVA_FROM_CONFIG || value->source == KVA_FROM_PERSON;
    case KVA_OP_IS_NULL:
        return value->source == KVA_FROM_NULL;
    case KVA_OP_IS_ABSENT:
        return value->source == KVA_FROM_DEFAULT;
    case KVA_OP_IS:
        return value->type == KVA_TEXT && value->text != NULL ? same_text(op, value->text)
                                                              : fail(m, op, "is() of a key that is no text");
    default:
        break;
    }
    if (value->type != KVA_REAL)
        return fail(m, op, "scale() of a key that is no real number");
    double product = floor(value->real * (double)arguments[0]);
    return fabs(product) < 9e15 ? (int64_t)product : fail(m, op, "a product beyond 53 bits");
}

// The last layer before `before` of the same kind as this one. That there is none is an error.
static int64_t last_like(struct machine *m, const struct kva_op *op, int64_t before)
{
    const struct kva_scope *scope = m->scope;
    if (scope->layers == NULL || scope->kind == NULL || before > scope->layer)
        return fail(m, op, "last_like() of layers that are not known yet,");
    int64_t layer = before - 1;
    while (layer >= 0 && strcmp(scope->layers[layer].kind, scope->kind) != 0)
        layer--;
    return layer >= 0 ? layer : fail(m, op, "last_like(): no layer before is of the same kind,");
}

// ---------------------------------------------------------------- running

enum kva_status kva_program_run(const struct kva_program *program, const struct kva_scope *scope, int64_t *value,
                                struct kva_error *error)
{
    struct machine m = {program, scope, error, KVA_OK};
    int64_t stack[KVA_PROGRAM_STACK + 1] = {0}, *top = stack;  // top: the first free place
    for (size_t at = 0; at < program->n_ops && m.status == KVA_OK; at++) {
        const struct kva_op *op = &program->ops[at];
        switch (op->code) {
        case KVA_OP_NUMBER:
            *top++ = op->number;
            break;
        case KVA_OP_NAME:
            *top++ = count_of(&m, op);
            break;
        case KVA_OP_LAYER:
            *top++ = scope->layer >= 0 ? scope->layer : fail(&m, op, "`i`, where there is no layer,");
            break;
        case KVA_OP_NEGATE:
            if (__builtin_sub_overflow((int64_t)0, top[-1], &top[-1]))
                fail(&m, op, "a difference beyond 64 bits");
            break;
        case KVA_OP_NOT:
            top[-1] = top[-1] == 0;
            break;
        case KVA_OP_TRUTH:
            top[-1] = top[-1] != 0;
            break;
        case KVA_OP_JUMP:
            at = (size_t)op->number - 1;
            break;
        case KVA_OP_JUMP_IF_ZERO:
            if (*--top == 0)
                at = (size_t)op->number - 1;
            break;
        case KVA_OP_AND:
        case KVA_OP_OR:
            if ((top[-1] == 0) == (op->code == KVA_OP_AND)) {
                top[-1] = op->code == KVA_OP_OR;
                at = (size_t)op->number - 1;
            } else
                top--;
            break;
        case KVA_OP_LENGTH:
        case KVA_OP_ITEM:
        case KVA_OP_ITEM_IS:
        case KVA_OP_HAS_ITEM:
        case KVA_OP_CONTAINS:
        case KVA_OP_COUNT:
            top -= op->n_arguments;
            *top = on_list(&m, op, top);
            top++;
            break;
        case KVA_OP_HAS:
        case KVA_OP_IS_NULL:
        case KVA_OP_IS_ABSENT:
        case KVA_OP_IS:
        case KVA_OP_SCALE:
            top -= op->n_arguments;
            *top = on_key(&m, op, top);
            top++;
            break;
        case KVA_OP_LAST_LIKE:
            top[-1] = last_like(&m, op, top[-1]);
            break;
        default:
            top--;
            top[-1] = binary(&m, op, top[-1], top[0]);
        }
    }
    if (m.status == KVA_OK)
        *value = stack[0];
    return m.status;
}

// ---------------------------------------------------------------- keeping

// A hash table with open addresses; at most half full.
struct kva_programs {
    struct kva_program **slots;
    size_t room, n;
};

struct kva_programs *kva_programs_new(void)
{
    struct kva_programs *programs = calloc(1, sizeof *programs);
    if (programs != NULL) {
        programs->room = 64;
        programs->slots = calloc(programs->room, sizeof *programs->slots);
        if (programs->slots == NULL) {
            free(programs);
            return NULL;
        }
    }
    return programs;
}

void kva_programs_free(struct kva_programs *programs)
{
    if (programs == NULL)
        return;
    for (size_t i = 0; i < programs->room; i++)
        kva_program_free(programs->slots[i]);
    free(programs->slots);
    free(programs);
}

static size_t place_of(const struct kva_programs *programs, const char *formula)
{
    size_t place = (size_t)((uintptr_t)formula * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (programs->room - 1);
    while (programs->slots[place] != NULL && programs->slots[place]->formula != formula)
        place = (place + 1) & (programs->room - 1);
    return place;
}

static bool grow(struct kva_programs *programs)
{
    struct kva_programs larger = {.room = programs->room * 2, .n = programs->n};
    larger.slots = calloc(larger.room, sizeof *larger.slots);
    if (larger.slots == NULL)
        return false;
    for (size_t i = 0; i < programs->room; i++)
        if (programs->slots[i] != NULL)
            larger.slots[place_of(&larger, programs->slots[i]->formula)] = programs->slots[i];
    free(programs->slots);
    *programs = larger;
    return true;
}

enum kva_status kva_programs_get(struct kva_programs *programs, const char *formula, kva_resolve resolve, void *user,
                                 const struct kva_program **program, struct kva_error *error)
{
    size_t place = place_of(programs, formula);
    if (programs->slots[place] == NULL) {
        if (programs->n * 2 >= programs->room) {
            if (!grow(programs))
                return kva_fail_memory(error, programs->room * sizeof *programs->slots);
            place = place_of(programs, formula);
        }
        enum kva_status status = kva_program_compile(formula, resolve, user, &programs->slots[place], error);
        if (status != KVA_OK)
            return status;
        programs->n++;
    }
    *program = programs->slots[place];
    return KVA_OK;
}
