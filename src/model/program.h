// What expr.c compiles formulas to and program.c runs: operations of a stack machine.
#ifndef KVA_MODEL_PROGRAM_H
#define KVA_MODEL_PROGRAM_H

#include "model/expr.h"

#define KVA_PROGRAM_STACK 32  // values at a time; expr.c counts them, so that a program neither over- nor underruns

enum kva_op_code {
    KVA_OP_NUMBER,  // push `number`
    KVA_OP_NAME,    // push the value in `slot`
    KVA_OP_LAYER,   // push `i`
    // on one value
    KVA_OP_NEGATE,
    KVA_OP_NOT,
    KVA_OP_TRUTH,
    // on two values
    KVA_OP_ADD,
    KVA_OP_SUBTRACT,
    KVA_OP_MULTIPLY,
    KVA_OP_DIVIDE,
    KVA_OP_REMAINDER,
    KVA_OP_CEIL_DIV,
    KVA_OP_MIN,
    KVA_OP_MAX,
    KVA_OP_EQUAL,
    KVA_OP_NOT_EQUAL,
    KVA_OP_AT_MOST,
    KVA_OP_AT_LEAST,
    KVA_OP_LESS,
    KVA_OP_GREATER,
    // jumps to the operation `number`
    KVA_OP_JUMP,
    KVA_OP_JUMP_IF_ZERO,  // pops
    KVA_OP_AND,           // 0: stays and jumps, else pops
    KVA_OP_OR,            // else than 0: 1 stays and jumps, else pops
    // on the value in `slot`, with `n_arguments` from the stack and perhaps `text`
    KVA_OP_LENGTH,
    KVA_OP_ITEM,
    KVA_OP_ITEM_IS,
    KVA_OP_HAS_ITEM,
    KVA_OP_CONTAINS,
    KVA_OP_COUNT,
    KVA_OP_HAS,
    KVA_OP_IS_NULL,
    KVA_OP_IS_ABSENT,
    KVA_OP_IS,
    KVA_OP_SCALE,
    KVA_OP_LAST_LIKE,
};

struct kva_op {
    enum kva_op_code code;
    uint32_t slot;
    uint32_t at;  // character of the formula, for errors
    uint32_t length;
    uint8_t n_arguments;
    int64_t number;
    const char *text;  // in the formula, [length]; NULL: none
};

struct kva_program {
    const char *formula;
    size_t n_ops;
    struct kva_op ops[];
};

#endif
