// Integer formulas, as architecture files write them: "hidden / heads", "(i + 1) % period == 0",
// "use_sliding_window and i >= max_window_layers". Signed 64-bit, checked.
//   values      decimal integers, names, `i` (the layer, from 0)
//   operators   or | and | not | == != < <= > >= | + - | * / % | unary -        ( / and % floor, as Python's // and % )
//   functions   ceil_div(a, b)  min(a, b)  max(a, b)  if(condition, a, b)
//   of a list   length(list)  item(list, n)  item(list, n, otherwise)  item_is(list, n, "text")  has_item(list, n)
//               contains(list, n)  contains(list, "text")  count(list, n)  count(list, "text")
//   of a key    has(name)  is_null(name)  is_absent(name)  is(name, "text")  scale(real_name, n)
//   of layers   last_like(n)
// true is 1, false is 0; any value but 0 is true. What each function means: docs/architecture-files.md.
//
// A formula is compiled once to a small program for a stack machine and run for every layer of every config.
#ifndef KVA_MODEL_EXPR_H
#define KVA_MODEL_EXPR_H

#include "kvatlas.h"

struct kva_program;

// The place of a name in the values that a program will run over; false: unknown.
typedef bool (*kva_resolve)(void *user, const char *name, size_t length, uint32_t *slot);

// `formula` must live as long as the program. Errors: KVA_BAD_INPUT with the formula as key (syntax, unknown name),
// KVA_MACHINE.
enum kva_status kva_program_compile(const char *formula, kva_resolve resolve, void *user, struct kva_program **program,
                                    struct kva_error *error);
void kva_program_free(struct kva_program *program);

// What a program runs over.
struct kva_scope {
    const struct kva_value *values;  // by slot
    size_t n_values;                 // those that are known by now
    int64_t layer;                   // `i`; -1: of no layer
    const struct kva_layer *layers;  // those before `layer` have their kinds
    const char *kind;                // the name of this layer's kind; NULL: not known by now
};

// Errors: KVA_BAD_INPUT with the formula as key (division by zero, overflow, a name that is not known by now or is of
// another type, no such item).
enum kva_status kva_program_run(const struct kva_program *program, const struct kva_scope *scope, int64_t *value,
                                struct kva_error *error);

// Looks up the value of a name; false: unknown.
typedef bool (*kva_lookup)(void *user, const char *name, size_t length, int64_t *value);

// Compiles and runs a formula once; names are counts only.
enum kva_status kva_expr_eval(const char *formula, kva_lookup lookup, void *user, int64_t *value,
                              struct kva_error *error);

// Programs by the address of their formula.
struct kva_programs;
struct kva_programs *kva_programs_new(void);  // NULL: out of memory
void kva_programs_free(struct kva_programs *programs);
// Compiles `formula` when it is asked for the first time. Errors: as kva_program_compile.
enum kva_status kva_programs_get(struct kva_programs *programs, const char *formula, kva_resolve resolve, void *user,
                                 const struct kva_program **program, struct kva_error *error);

#endif
