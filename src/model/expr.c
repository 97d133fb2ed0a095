// Recursive descent over the grammar of expr.h. A branch that `and`, `or` or if() does not take is still parsed and its
// names are still looked up, so a typing error shows at once, but its arithmetic is not done: "p > 0 and i % p == 0" is
// fine at p = 0.
#include "model/expr.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { MAX_DEPTH = 64, MAX_LENGTH = 4096 };

struct parser {
    const char *formula, *at;
    kva_lookup lookup;
    void *user;
    struct kva_error *error;
    enum kva_status status;
    int depth;
    int skipping;  // > 0: in a branch that is not taken
};

static int64_t parse_or(struct parser *p);

static int64_t fail(struct parser *p, const char *what)
{
    if (p->status == KVA_OK)
        p->status = kva_fail(p->error, KVA_BAD_INPUT, NULL, p->formula, "%s at character %zu of the formula", what,
                             (size_t)(p->at - p->formula) + 1);
    return 0;
}

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

static int64_t add(struct parser *p, int64_t a, int64_t b)
{
    int64_t sum;
    if (p->skipping > 0 || p->status != KVA_OK)
        return 0;
    return __builtin_add_overflow(a, b, &sum) ? fail(p, "a sum beyond 64 bits") : sum;
}

static int64_t subtract(struct parser *p, int64_t a, int64_t b)
{
    int64_t difference;
    if (p->skipping > 0 || p->status != KVA_OK)
        return 0;
    return __builtin_sub_overflow(a, b, &difference) ? fail(p, "a difference beyond 64 bits") : difference;
}

static int64_t multiply(struct parser *p, int64_t a, int64_t b)
{
    int64_t product;
    if (p->skipping > 0 || p->status != KVA_OK)
        return 0;
    return __builtin_mul_overflow(a, b, &product) ? fail(p, "a product beyond 64 bits") : product;
}

// Quotient rounded down and the remainder with the divisor's sign, as Python's // and % have them.
static bool divide(struct parser *p, int64_t a, int64_t b, int64_t *quotient, int64_t *remainder)
{
    *quotient = *remainder = 0;
    if (p->skipping > 0 || p->status != KVA_OK)
        return false;
    if (b == 0) {
        fail(p, "a division by zero");
        return false;
    }
    if (a == INT64_MIN && b == -1) {
        fail(p, "a quotient beyond 64 bits");
        return false;
    }
    *quotient = a / b;
    *remainder = a % b;
    if (*remainder != 0 && (*remainder < 0) != (b < 0)) {
        *quotient -= 1;
        *remainder += b;
    }
    return true;
}

// condition, a, b): only the branch taken is computed
static int64_t parse_if(struct parser *p)
{
    int64_t condition = parse_or(p);
    expect(p, ",", "a comma was expected");
    p->skipping += condition == 0;
    int64_t a = parse_or(p);
    p->skipping -= condition == 0;
    expect(p, ",", "a comma was expected");
    p->skipping += condition != 0;
    int64_t b = parse_or(p);
    p->skipping -= condition != 0;
    expect(p, ")", "a closing parenthesis was expected");
    return condition != 0 ? a : b;
}

enum function { FUNCTION_CEIL_DIV, FUNCTION_MIN, FUNCTION_MAX };

static int64_t parse_call(struct parser *p, enum function function)
{
    int64_t a = parse_or(p), quotient, remainder;
    expect(p, ",", "a comma was expected");
    int64_t b = parse_or(p);
    expect(p, ")", "a closing parenthesis was expected");
    switch (function) {
    case FUNCTION_MIN:
        return a < b ? a : b;
    case FUNCTION_MAX:
        return a > b ? a : b;
    case FUNCTION_CEIL_DIV:
        return divide(p, a, b, &quotient, &remainder) ? quotient + (remainder != 0) : 0;
    }
    return 0;
}

static int64_t parse_number(struct parser *p)
{
    int64_t value = 0;
    for (; is_digit(*p->at); p->at++)
        if (__builtin_mul_overflow(value, (int64_t)10, &value) ||
            __builtin_add_overflow(value, (int64_t)(*p->at - '0'), &value))
            return fail(p, "a number beyond 64 bits");
    return is_alpha(*p->at) ? fail(p, "a letter in a number") : value;
}

static int64_t parse_name(struct parser *p)
{
    static const char *const FUNCTIONS[] = {"ceil_div", "min", "max"};
    const char *name = p->at;
    size_t length = 0;
    while (is_alpha(name[length]) || is_digit(name[length]))
        length++;
    p->at += length;
    skip_space(p);
    if (*p->at == '(') {
        if (length == 2 && memcmp(name, "if", 2) == 0) {
            p->at++;
            return parse_if(p);
        }
        for (size_t i = 0; i < sizeof FUNCTIONS / sizeof *FUNCTIONS; i++)
            if (strlen(FUNCTIONS[i]) == length && memcmp(name, FUNCTIONS[i], length) == 0) {
                p->at++;
                return parse_call(p, (enum function)i);
            }
        p->at = name;
        return fail(p, "an unknown function");
    }
    int64_t value;
    if (p->lookup != NULL && p->lookup(p->user, name, length, &value))
        return value;
    if (p->status == KVA_OK)
        p->status = kva_fail(p->error, KVA_BAD_INPUT, NULL, p->formula,
                             "the formula names \"%.*s\", which is not known", length > 80 ? 80 : (int)length, name);
    return 0;
}

static int64_t parse_primary(struct parser *p)
{
    skip_space(p);
    if (p->status != KVA_OK)
        return 0;
    if (accept(p, "(")) {
        int64_t value = parse_or(p);
        expect(p, ")", "a closing parenthesis was expected");
        return value;
    }
    if (is_digit(*p->at))
        return parse_number(p);
    if (is_alpha(*p->at))
        return parse_name(p);
    return fail(p, "a number or a name was expected");
}

static int64_t parse_unary(struct parser *p)
{
    bool negative = false;
    while (accept(p, "-"))
        negative = !negative;
    int64_t value = parse_primary(p);
    return negative ? subtract(p, 0, value) : value;
}

static int64_t parse_product(struct parser *p)
{
    int64_t value = parse_unary(p), quotient, remainder;
    while (p->status == KVA_OK) {
        if (accept(p, "*"))
            value = multiply(p, value, parse_unary(p));
        else if (accept(p, "/")) {
            divide(p, value, parse_unary(p), &quotient, &remainder);
            value = quotient;
        } else if (accept(p, "%")) {
            divide(p, value, parse_unary(p), &quotient, &remainder);
            value = remainder;
        } else
            break;
    }
    return value;
}

static int64_t parse_sum(struct parser *p)
{
    int64_t value = parse_product(p);
    while (p->status == KVA_OK) {
        if (accept(p, "+"))
            value = add(p, value, parse_product(p));
        else if (accept(p, "-"))
            value = subtract(p, value, parse_product(p));
        else
            break;
    }
    return value;
}

enum comparison { EQUAL, NOT_EQUAL, AT_MOST, AT_LEAST, LESS, GREATER, NO_COMPARISON };

static enum comparison accept_comparison(struct parser *p)
{
    static const char *const SYMBOLS[] = {"==", "!=", "<=", ">=", "<", ">"};
    for (int i = EQUAL; i < NO_COMPARISON; i++)
        if (accept(p, SYMBOLS[i]))
            return (enum comparison)i;
    return NO_COMPARISON;
}

static int64_t parse_comparison(struct parser *p)
{
    int64_t a = parse_sum(p);
    enum comparison comparison = accept_comparison(p);
    if (comparison == NO_COMPARISON)
        return a;
    int64_t b = parse_sum(p);
    if (accept_comparison(p) != NO_COMPARISON)
        return fail(p, "a second comparison (write it with `and`)");
    switch (comparison) {
    case EQUAL:
        return a == b;
    case NOT_EQUAL:
        return a != b;
    case AT_MOST:
        return a <= b;
    case AT_LEAST:
        return a >= b;
    case LESS:
        return a < b;
    default:
        return a > b;
    }
}

static int64_t parse_not(struct parser *p)
{
    bool inverted = false, any = false;
    while (accept_word(p, "not")) {
        inverted = !inverted;
        any = true;
    }
    int64_t value = parse_comparison(p);
    return any ? (value != 0) != inverted : value;
}

static int64_t parse_and(struct parser *p)
{
    int64_t value = parse_not(p);
    while (accept_word(p, "and")) {
        bool decided = value == 0;
        p->skipping += decided;
        int64_t right = parse_not(p);
        p->skipping -= decided;
        value = !decided && right != 0;
    }
    return value;
}

static int64_t parse_or(struct parser *p)
{
    if (++p->depth > MAX_DEPTH) {
        p->depth--;
        return fail(p, "parentheses too deep");
    }
    int64_t value = parse_and(p);
    while (accept_word(p, "or")) {
        bool decided = value != 0;
        p->skipping += decided;
        int64_t right = parse_and(p);
        p->skipping -= decided;
        value = decided || right != 0;
    }
    p->depth--;
    return value;
}

enum kva_status kva_expr_eval(const char *formula, kva_lookup lookup, void *user, int64_t *value,
                              struct kva_error *error)
{
    struct parser p = {.formula = formula, .at = formula, .lookup = lookup, .user = user, .error = error};
    if (strlen(formula) > MAX_LENGTH)
        return kva_fail(error, KVA_BAD_INPUT, NULL, formula, "a formula has at most %d characters", MAX_LENGTH);
    int64_t result = parse_or(&p);
    skip_space(&p);
    if (p.status == KVA_OK && *p.at != '\0')
        fail(&p, "something after the end");
    if (p.status == KVA_OK)
        *value = result;
    return p.status;
}
