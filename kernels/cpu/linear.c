// y = x W^T (+ y): CBLAS in float32; bf16 operands are widened block by block into fixed scratch.
#include <cblas.h>

#include "base/checked.h"
#include "kernels/cpu/cpu.h"

static enum kva_status too_wide(struct kva_error *error, uint64_t n_in)
{
    return kva_fail(error, KVA_MACHINE, NULL, "linear", "%llu inputs are more than the CPU backend takes",
                    (unsigned long long)n_in);
}

static void product(const float *x, uint64_t x_stride, const float *weight, uint64_t n_in, float *y, uint64_t y_stride,
                    uint64_t rows, uint64_t n_out, bool accumulate)
{
    const float beta = accumulate ? 1 : 0;
    if (rows == 1)
        cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)n_out, (int)n_in, 1, weight, (int)n_in, x, 1, beta, y, 1);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)n_out, (int)n_in, 1, x, (int)x_stride,
                    weight, (int)n_in, beta, y, (int)y_stride);
}

static void widen(const uint16_t *from, uint64_t stride, uint64_t rows, uint64_t width, float *to)
{
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t i = 0; i < width; i++)
            to[r * width + i] = kva_bf16_to_f32(from[r * stride + i]);
}

static void store_block(const struct kva_linear_args *a, uint64_t row, uint64_t column, uint64_t rows, uint64_t columns,
                        const float *block)
{
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < columns; c++) {
            const uint64_t at = (row + r) * a->y_stride + column + c;
            const float value = block[r * columns + c];
            if (a->y_f32)
                ((float *)a->y)[at] = a->accumulate ? ((float *)a->y)[at] + value : value;
            else
                kva_store(KVA_BF16, a->y, at, a->accumulate ? kva_load(KVA_BF16, a->y, at) + value : value);
        }
}

enum kva_status kva_cpu_linear(struct kva_device *device, const struct kva_linear_args *a, struct kva_error *error)
{
    if (a->n_in > SCRATCH_FLOATS || a->n_out > INT32_MAX || a->rows > INT32_MAX)
        return too_wide(error, a->n_in);
    if (device->act == KVA_F32) {
        product(a->x, a->x_stride, a->weight, a->n_in, a->y, a->y_stride, a->rows, a->n_out, a->accumulate);
        return KVA_OK;
    }
    const uint64_t x_rows = kva_max(kva_min(SCRATCH_FLOATS / a->n_in, 256), 1);
    const uint64_t w_rows = kva_max(kva_min(SCRATCH_FLOATS / a->n_in, SCRATCH_FLOATS / x_rows), 1);
    for (uint64_t row = 0; row < a->rows; row += x_rows) {
        const uint64_t rows = kva_min(x_rows, a->rows - row);
        widen((const uint16_t *)a->x + row * a->x_stride, a->x_stride, rows, a->n_in, device->x_block);
        for (uint64_t column = 0; column < a->n_out; column += w_rows) {
            const uint64_t columns = kva_min(w_rows, a->n_out - column);
            widen((const uint16_t *)a->weight + column * a->n_in, a->n_in, columns, a->n_in, device->w_block);
            product(device->x_block, a->n_in, device->w_block, a->n_in, device->y_block, columns, rows, columns, false);
            store_block(a, row, column, rows, columns, device->y_block);
        }
    }
    return KVA_OK;
}
