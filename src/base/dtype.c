#include <string.h>

#include "kvatlas.h"

static const struct {
    const char *name;
    uint64_t bytes;
} TYPES[KVA_N_DTYPES] = {
    [KVA_DTYPE_NONE] = {"unknown", 0},
    [KVA_F32] = {"f32", 4},
    [KVA_F16] = {"f16", 2},
    [KVA_BF16] = {"bf16", 2},
    [KVA_F8_E4M3] = {"fp8_e4m3", 1},
    [KVA_F8_E5M2] = {"fp8_e5m2", 1},
    [KVA_I8] = {"int8", 1},
    [KVA_U8] = {"uint8", 1},
    [KVA_I16] = {"int16", 2},
    [KVA_I32] = {"int32", 4},
    [KVA_I64] = {"int64", 8},
    [KVA_F64] = {"f64", 8},
    [KVA_BOOL] = {"bool", 1},
    [KVA_U16] = {"uint16", 2},
    [KVA_U32] = {"uint32", 4},
    [KVA_U64] = {"uint64", 8},
    [KVA_F8_E8M0] = {"f8_e8m0", 1},
    [KVA_C64] = {"complex64", 8},
};

// Other spellings: PyTorch's, safetensors', and the ones that engines' flags take.
static const struct {
    const char *text;
    enum kva_dtype dtype;
} SPELLINGS[] = {
    {"float32", KVA_F32},
    {"F32", KVA_F32},
    {"fp32", KVA_F32},
    {"float", KVA_F32},
    {"float16", KVA_F16},
    {"F16", KVA_F16},
    {"fp16", KVA_F16},
    {"half", KVA_F16},
    {"bfloat16", KVA_BF16},
    {"BF16", KVA_BF16},
    {"fp8", KVA_F8_E4M3},
    {"F8_E4M3", KVA_F8_E4M3},
    {"float8_e4m3fn", KVA_F8_E4M3},
    {"F8_E5M2", KVA_F8_E5M2},
    {"float8_e5m2", KVA_F8_E5M2},
    {"I8", KVA_I8},
    {"i8", KVA_I8},
    {"U8", KVA_U8},
    {"u8", KVA_U8},
    {"I16", KVA_I16},
    {"I32", KVA_I32},
    {"i32", KVA_I32},
    {"I64", KVA_I64},
    {"i64", KVA_I64},
    {"F64", KVA_F64},
    {"float64", KVA_F64},
    {"double", KVA_F64},
    {"BOOL", KVA_BOOL},
    {"U16", KVA_U16},
    {"U32", KVA_U32},
    {"U64", KVA_U64},
    {"F8_E8M0", KVA_F8_E8M0},
    {"C64", KVA_C64},
};

uint64_t kva_dtype_bytes(enum kva_dtype dtype)
{
    return dtype < KVA_N_DTYPES ? TYPES[dtype].bytes : 0;
}

const char *kva_dtype_name(enum kva_dtype dtype)
{
    return dtype < KVA_N_DTYPES ? TYPES[dtype].name : TYPES[KVA_DTYPE_NONE].name;
}

enum kva_dtype kva_dtype_parse(const char *text)
{
    if (strncmp(text, "torch.", 6) == 0)
        text += 6;
    for (int i = KVA_F32; i < KVA_N_DTYPES; i++)
        if (strcmp(text, TYPES[i].name) == 0)
            return (enum kva_dtype)i;
    for (size_t i = 0; i < sizeof SPELLINGS / sizeof *SPELLINGS; i++)
        if (strcmp(text, SPELLINGS[i].text) == 0)
            return SPELLINGS[i].dtype;
    return KVA_DTYPE_NONE;
}
