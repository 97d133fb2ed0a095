#include "model/ggml_types.h"

enum { K = 256 };  // QK_K, elements of a super-block

// By enum ggml_type. 4 and 5 were gone before GGUF; the row-interleaved types 31 to 33 and 36 to 38, which files no
// longer hold, have the size of what they interleave.
static const struct kva_ggml_type TYPES[] = {
    [0] = {"F32", 1, 4},
    [1] = {"F16", 1, 2},
    [2] = {"Q4_0", 32, 2 + 16},
    [3] = {"Q4_1", 32, 2 + 2 + 16},
    [6] = {"Q5_0", 32, 2 + 4 + 16},
    [7] = {"Q5_1", 32, 2 + 2 + 4 + 16},
    [8] = {"Q8_0", 32, 2 + 32},
    [9] = {"Q8_1", 32, 2 + 2 + 32},  // block_q8_1; gguf-py says 40, as it was before the two scales were halves
    [10] = {"Q2_K", K, 2 + 2 + K / 16 + K / 4},
    [11] = {"Q3_K", K, 2 + K / 4 + K / 8 + 12},
    [12] = {"Q4_K", K, 2 + 2 + K / 2 + 12},
    [13] = {"Q5_K", K, 2 + 2 + K / 2 + K / 8 + 12},
    [14] = {"Q6_K", K, 2 + K / 2 + K / 4 + K / 16},
    [15] = {"Q8_K", K, 4 + K + K / 8},
    [16] = {"IQ2_XXS", K, 2 + K / 4},
    [17] = {"IQ2_XS", K, 2 + K / 4 + K / 32},
    [18] = {"IQ3_XXS", K, 2 + K / 4 + K / 8},
    [19] = {"IQ1_S", K, 2 + K / 8 + K / 16},
    [20] = {"IQ4_NL", 32, 2 + 16},
    [21] = {"IQ3_S", K, 2 + K / 4 + K / 8 + K / 32 + 4},
    [22] = {"IQ2_S", K, 2 + K / 4 + K / 16},
    [23] = {"IQ4_XS", K, 2 + 2 + K / 2 + K / 64},
    [24] = {"I8", 1, 1},
    [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},
    [27] = {"I64", 1, 8},
    [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", K, K / 8 + K / 16 + K / 32},
    [30] = {"BF16", 1, 2},
    [31] = {"Q4_0_4_4", 32, 2 + 16},
    [32] = {"Q4_0_4_8", 32, 2 + 16},
    [33] = {"Q4_0_8_8", 32, 2 + 16},
    [34] = {"TQ1_0", K, 2 + 4 * 13},
    [35] = {"TQ2_0", K, 2 + 64},
    [36] = {"IQ4_NL_4_4", 32, 2 + 16},
    [37] = {"IQ4_NL_4_8", 32, 2 + 16},
    [38] = {"IQ4_NL_8_8", 32, 2 + 16},
    [39] = {"MXFP4", 32, 1 + 16},
    [40] = {"NVFP4", 64, 4 + 32},
    [41] = {"Q1_0", 128, 2 + 16},
};

const struct kva_ggml_type *kva_ggml_type(uint32_t number)
{
    if (number >= sizeof TYPES / sizeof *TYPES || TYPES[number].name == NULL)
        return NULL;
    return &TYPES[number];
}
