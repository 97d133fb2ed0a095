// Recursive descent over the grammar of expr.h, which emits a program. A branch that `and`, `or` or if() does not take
// is jumped over, so "p > 0 and i % p == 0" is fine at p = 0; its names are still looked up, so a typing error shows at
// once.
#include "model/expr.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/program.h"

enum { MAX_DEPTH = 64, MAX_LENGTH = 4096 };

struct parser {
    const char *formula, *at;
    kva_resolve resolve;
    kva_lookup lookup;
    void *user;
    struct kva_program *program;
    size_t room;
    struct kva_error *error;
    enum kva_status status;
    int depth;
    int stack;  // values on the stack after the operations so far
};

static void parse_or(struct parser *p);

static void fail(struct parser *p, const char *what)
{
    if (p->status == KVA_OK)
        p->status = kva_fail(p->error, KVA_BAD_INPUT, NULL, p->formula, "%s at character %zu of the formula", what,
                             (size_t)(p->at - p->formula) + 1);
}

// ---------------------------------------------------------------- emitting

// pushes: how many more values the stack holds after it (negative: fewer). Returns its place.
static size_t emit(struct parser *p, struct kva_op op, int pushes)
{
    if (p->status != KVA_OK)
        return 0;
    if (p->program->n_ops == p->room) {
        size_t room = p->room * 2;
        struct kva_program *grown = realloc(p->program, sizeof *grown + room * sizeof *grown->ops);
        if (grown == NULL) {
            p->status = kva_fail_memory(p->error, room * sizeof *grown->ops);
            return 0;
        }
        p->program = grown;
        p->room = room;
    }
    op.at = (uint32_t)(p->at - p->formula);
    p->stack += pushes;
    if (p->stack > KVA_PROGRAM_STACK)
        fail(p, "too many values at a time");
    p->program->ops[p->program->n_ops] = op;
    return p->program->n_ops++;
}

static void emit_code(struct parser *p, enum kva_op_code code, int pushes)
{
    emit(p, (struct kva_op){.code = code}, pushes);
}

// The jump at `from` leads here.
static void land(struct parser *p, size_t from)
{
    if (p->status == KVA_OK)
        p->program->ops[from].number = (int64_t)p->program->n_ops;
}

// ---------------------------------------------------------------- reading

static bool is_alpha(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n')
        p->at++;
}

static bool accept(struct parser *p, const char *symbol)
{
    skip_space(p);
    size_t length = strlen(symbol);
    if (p->status != KVA_OK || strncmp(p->at, symbol, length) != 0)
        return false;
    p->at += length;
    return true;
}

static bool accept_word(struct parser *p, const char *word)
{
    skip_space(p);
    size_t length = strlen(word);
    if (p->status != KVA_OK || strncmp(p->at, word, length) != 0 || is_alpha(p->at[length]) || is_digit(p->at[length]))
        return false;
    p->at += length;
    return true;
}

static void expect(struct parser *p, const char *symbol, const char *message)
{
    if (!accept(p, symbol))
        fail(p, message);
}

static void expect_comma(struct parser *p)
{
    expect(p, ",", "a comma was expected");
}

static void expect_close(struct parser *p)
{
    expect(p, ")", "a closing parenthesis was expected");
}

static size_t word_length(const char *at)
{
    size_t length = 0;
    while (is_alpha(at[length]) || is_digit(at[length]))
        length++;
    return length;
}

static uint32_t slot_of(struct parser *p, const char *name, size_t length)
{
    uint32_t slot = 0;
    if (p->status == KVA_OK && (p->resolve == NULL || !p->resolve(p->user, name, length, &slot)))
        p->status = kva_fail(p->error, KVA_BAD_INPUT, NULL, p->formula,
                             "the formula names \"%.*s\", which is not known", length > 80 ? 80 : (int)length, name);
    return slot;
}

// ---------------------------------------------------------------- functions

// condition, a, b): only the branch taken is computed
static void parse_if(struct parser *p)
{
    parse_or(p);
    expect_comma(p);
    size_t otherwise = emit(p, (struct kva_op){.code = KVA_OP_JUMP_IF_ZERO}, -1);
    parse_or(p);
    expect_comma(p);
    size_t end = emit(p, (struct kva_op){.code = KVA_OP_JUMP}, -1);
    land(p, otherwise);
    parse_or(p);
    land(p, end);
    expect_close(p);
}

// What stands between a function's parentheses: `n` a formula, `k` the name of a key, `t` a text, `e` a formula or a
// text, `?` before what may be left out.
static const struct function {
    const char *name, *arguments;
    enum kva_op_code code;
} FUNCTIONS[] = {
    {"ceil_div", "nn", KVA_OP_CEIL_DIV},
    {"min", "nn", KVA_OP_MIN},
    {"max", "nn", KVA_OP_MAX},
    {"length", "k", KVA_OP_LENGTH},
    {"item", "kn?n", KVA_OP_ITEM},
    {"item_is", "knt", KVA_OP_ITEM_IS},
    {"has_item", "kn", KVA_OP_HAS_ITEM},
    {"contains", "ke", KVA_OP_CONTAINS},
    {"count", "ke", KVA_OP_COUNT},
    {"has", "k", KVA_OP_HAS},
    {"is_null", "k", KVA_OP_IS_NULL},
    {"is_absent", "k", KVA_OP_IS_ABSENT},
    {"is", "kt", KVA_OP_IS},
    {"scale", "kn", KVA_OP_SCALE},
    {"last_like", "n", KVA_OP_LAST_LIKE},
};

static void parse_key(struct parser *p, struct kva_op *op)
{
    skip_space(p);
    size_t length = is_digit(*p->at) ? 0 : word_length(p->at);
    if (length == 0)
        fail(p, "the name of a key was expected");
    else
        op->slot = slot_of(p, p->at, length);
    p->at += length;
}

static bool parse_text(struct parser *p, struct kva_op *op)
{
    skip_space(p);
    const char quote = *p->at;
    if (quote != '"' && quote != '\'')
        return false;
    const char *end = strchr(p->at + 1, quote);
    if (end == NULL) {
        fail(p, "a text without an end");
        return true;
    }
    op->text = p->at + 1;
    op->length = (uint32_t)(end - op->text);
    p->at = end + 1;
    return true;
}

static void parse_call(struct parser *p, const struct function *function)
{
    struct kva_op op = {.code = function->code};
    int popped = 0;
    for (const char *a = function->arguments; *a != '\0' && p->status == KVA_OK; a++) {
        if (*a == '?') {
            skip_space(p);
            if (*p->at == ')')
                break;
            a++;
        }
        if (a != function->arguments)
            expect_comma(p);
        if (*a == 'k')
            parse_key(p, &op);
        else if (*a == 't' || *a == 'e') {
            bool text = parse_text(p, &op);
            if (!text && *a == 't')
                fail(p, "a text in quotes was expected");
            else if (!text) {
                parse_or(p);
                popped++;
            }
        } else {
            parse_or(p);
            popped++;
        }
    }
    op.n_arguments = (uint8_t)popped;
    emit(p, op, 1 - popped);
    expect_close(p);
}

// ---------------------------------------------------------------- the grammar

static void parse_number(struct parser *p)
{
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++)
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*p->at - '0'), &value)) {
            fail(p, "a number beyond 64 bits");
            return;
        }
    if (is_alpha(*p->at))
        fail(p, "a letter in a number");
    emit(p, (struct kva_op){.code = KVA_OP_NUMBER, .number = value}, 1);
}

static void parse_name(struct parser *p)
{
    const char *name = p->at;
    size_t length = word_length(name);
    p->at += length;
    skip_space(p);
    if (*p->at == '(') {
        if (length == 2 && memcmp(name, "if", 2) == 0) {
            p->at++;
            parse_if(p);
            return;
        }
        for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
            if (strlen(FUNCTIONS[i].name) == length && memcmp(name, FUNCTIONS[i].name, length) == 0) {
                p->at++;
                parse_call(p, &FUNCTIONS[i]);
                return;
            }
        p->at = name;
        fail(p, "an unknown function");
        return;
    }
    int64_t value;
    if (p->lookup != NULL && p->lookup(p->user, name, length, &value))
        emit(p, (struct kva_op){.code = KVA_OP_NUMBER, .number = value}, 1);
    else if (p->lookup == NULL && length == 1 && *name == 'i')
        emit_code(p, KVA_OP_LAYER, 1);
    else
        emit(p, (struct kva_op){.code = KVA_OP_NAME, .slot = slot_of(p, name, length)}, 1);
}

static void parse_primary(struct parser *p)
{
    skip_space(p);
    if (p->status != KVA_OK)
        return;
    if (accept(p, "(")) {
        parse_or(p);
        expect_close(p);
    } else if (is_digit(*p->at))
        parse_number(p);
    else if (is_alpha(*p->at))
        parse_name(p);
    else
        fail(p, "a number or a name was expected");
}

static void parse_unary(struct parser *p)
{
    bool negative = false;
    while (accept(p, "-"))
        negative = !negative;
    parse_primary(p);
    if (negative)
        emit_code(p, KVA_OP_NEGATE, 0);
}

static void parse_product(struct parser *p)
{
    parse_unary(p);
    while (p->status == KVA_OK) {
        enum kva_op_code code = KVA_OP_MULTIPLY;
        if (accept(p, "/"))
            code = KVA_OP_DIVIDE;
        else if (accept(p, "%"))
            code = KVA_OP_REMAINDER;
        else if (!accept(p, "*"))
            break;
        parse_unary(p);
        emit_code(p, code, -1);
    }
}

static void parse_sum(struct parser *p)
{
    parse_product(p);
    while (p->status == KVA_OK) {
        enum kva_op_code code = KVA_OP_ADD;
        if (accept(p, "-"))
            code = KVA_OP_SUBTRACT;
        else if (!accept(p, "+"))
            break;
        parse_product(p);
        emit_code(p, code, -1);
    }
}

static bool accept_comparison(struct parser *p, enum kva_op_code *code)
{
    static const struct {
        const char *symbol;
        enum kva_op_code code;
    } SYMBOLS[] = {{"==", KVA_OP_EQUAL},    {"!=", KVA_OP_NOT_EQUAL}, {"<=", KVA_OP_AT_MOST},
                   {">=", KVA_OP_AT_LEAST}, {"<", KVA_OP_LESS},       {">", KVA_OP_GREATER}};
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++)
        if (accept(p, SYMBOLS[i].symbol)) {
            *code = SYMBOLS[i].code;
            return true;
        }
    return false;
}

static void parse_comparison(struct parser *p)
{
    enum kva_op_code code, second;
    parse_sum(p);
    if (!accept_comparison(p, &code))
        return;
    parse_sum(p);
    if (accept_comparison(p, &second))
        fail(p, "a second comparison (write it with `and`)");
    emit_code(p, code, -1);
}

static void parse_not(struct parser *p)
{
    bool inverted = false, any = false;
    while (accept_word(p, "not")) {
        inverted = !inverted;
        any = true;
    }
    parse_comparison(p);
    if (any)
        emit_code(p, inverted ? KVA_OP_NOT : KVA_OP_TRUTH, 0);
}

static void parse_and(struct parser *p)
{
    parse_not(p);
    while (accept_word(p, "and")) {
        size_t end = emit(p, (struct kva_op){.code = KVA_OP_AND}, -1);
        parse_not(p);
        emit_code(p, KVA_OP_TRUTH, 0);
        land(p, end);
    }
}

static void parse_or(struct parser *p)
{
    if (++p->depth > MAX_DEPTH) {
        p->depth--;
        fail(p, "parentheses too deep");
        return;
    }
    parse_and(p);
    while (accept_word(p, "or")) {
        size_t end = emit(p, (struct kva_op){.code = KVA_OP_OR}, -1);
        parse_and(p);
        emit_code(p, KVA_OP_TRUTH, 0);
        land(p, end);
    }
    p->depth--;
}

static enum kva_status compile(struct parser *p, struct kva_program **program)
{
    *program = NULL;
    if (strlen(p->formula) > MAX_LENGTH)
        return kva_fail(p->error, KVA_BAD_INPUT, NULL, p->formula, "a formula has at most %d characters", MAX_LENGTH);
    p->room = 8;
    p->program = malloc(sizeof *p->program + p->room * sizeof *p->program->ops);
    if (p->program == NULL)
        return kva_fail_memory(p->error, sizeof *p->program);
    p->program->formula = p->formula;
    p->program->n_ops = 0;
    parse_or(p);
    skip_space(p);
    if (p->status == KVA_OK && *p->at != '\0')
        fail(p, "something after the end");
    if (p->status == KVA_OK)
        *program = p->program;
    else
        kva_program_free(p->program);
    return p->status;
}

enum kva_status kva_program_compile(const char *formula, kva_resolve resolve, void *user, struct kva_program **program,
                                    struct kva_error *error)
{
    struct parser p = {.formula = formula, .at = formula, .resolve = resolve, .user = user, .error = error};
    return compile(&p, program);
}

void kva_program_free(struct kva_program *program)
{
    free(program);
}

enum kva_status kva_expr_eval(const char *formula, kva_lookup lookup, void *user, int64_t *value,
                              struct kva_error *error)
{
    struct parser p = {.formula = formula, .at = formula, .lookup = lookup, .user = user, .error = error};
    struct kva_program *program;
    enum kva_status status = compile(&p, &program);
    if (status != KVA_OK)
        return status;
    status = kva_program_run(program, &(struct kva_scope){.layer = -1}, value, error);
    kva_program_free(program);
    return status;
}
