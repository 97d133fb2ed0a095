// Integer formulas, as architecture files write them: "hidden / heads", "(i + 1) % period == 0",
// "use_sliding_window and i >= max_window_layers". Signed 64-bit, checked.
//   values      decimal integers, names
//   operators   or | and | not | == != < <= > >= | + - | * / % | unary -        ( / and % floor, as Python's // and % )
//   functions   ceil_div(a, b)  min(a, b)  max(a, b)  if(condition, a, b)
// true is 1, false is 0; any value but 0 is true.
#ifndef KVA_MODEL_EXPR_H
#define KVA_MODEL_EXPR_H

#include "kvatlas.h"

// Looks up a name; false: unknown.
typedef bool (*kva_lookup)(void *user, const char *name, size_t length, int64_t *value);

// Errors: KVA_BAD_INPUT with the formula as key (syntax, unknown name, division by zero, overflow).
enum kva_status kva_expr_eval(const char *formula, kva_lookup lookup, void *user, int64_t *value,
                              struct kva_error *error);

#endif
