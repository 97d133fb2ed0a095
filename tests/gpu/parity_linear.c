// Matrix products, and the device's own calls.
#include "parity.h"

#include <math.h>
#include <string.h>

static void check_linear(struct parity *p, uint64_t rows, uint64_t n_out, uint64_t n_in, uint64_t padding, bool y_f32,
                         bool accumulate)
{
    const enum kva_dtype y_type = y_f32 ? KVA_F32 : p->act;
    struct kva_linear_args a = {.rows = rows,
                                .n_in = n_in,
                                .n_out = n_out,
                                .x_stride = n_in + padding,
                                .y_stride = n_out + padding,
                                .y_f32 = y_f32,
                                .accumulate = accumulate};
    double *x, *weight, *y, *expected = parity_doubles(p, rows * n_out), *out = parity_doubles(p, rows * n_out);
    a.x = parity_input(p, rows * a.x_stride, p->act, 1.0, &x);
    a.weight = parity_input(p, n_out * n_in, p->act, 1.0, &weight);
    a.y = parity_input(p, rows * a.y_stride, y_type, 5.0, &y);
    if (!accumulate)
        a.y = parity_poisoned(p, rows * a.y_stride, y_type);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t o = 0; o < n_out; o++) {
            double sum = accumulate ? y[r * a.y_stride + o] : 0.0;
            for (uint64_t i = 0; i < n_in; i++)
                sum += x[r * a.x_stride + i] * weight[o * n_in + i];
            expected[r * n_out + o] = sum;
        }
    struct kva_error error = {0};
    if (parity_called(p, p->kernels->linear(p->device, &a, &error), &error, "linear")) {
        const double *all = parity_download(p, a.y, rows * a.y_stride, y_type);
        bool inside = true;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t o = 0; o < a.y_stride; o++)
                if (o < n_out)
                    out[r * n_out + o] = all[r * a.y_stride + o];
                else
                    inside = inside && (accumulate ? all[r * a.y_stride + o] == y[r * a.y_stride + o]
                                                   : isnan(all[r * a.y_stride + o]));
        parity_compare(p, out, expected, rows * n_out, y_f32 ? 3e-6 : parity_limit(p, 3e-6, 3e-3),
                       "linear %llu x %llu -> %llu%s%s", (unsigned long long)rows, (unsigned long long)n_in,
                       (unsigned long long)n_out, y_f32 ? ", y f32" : "", accumulate ? ", accumulated" : "");
        if (!inside)
            parity_result(p, false, "linear wrote beyond its row");
    }
    parity_release(p);
}

void parity_linear(struct parity *p)
{
    for (uint64_t rows = 1; rows <= 5; rows++)
        for (int form = 0; form < 4; form++)
            check_linear(p, rows, form == 0 ? 301 : 64, form == 1 ? 2048 : 520, 8, form % 2 == 1, form / 2 == 1);
    check_linear(p, 1, 5000, 128, 0, false, false);
    check_linear(p, 3, 33, 13, 1, false, true);
    check_linear(p, 2, 1, 24, 0, true, false);
    check_linear(p, 65, 48, 96, 0, false, false);
    check_linear(p, 130, 40, 64, 8, true, true);
}

void parity_device(struct parity *p)
{
    struct kva_device_info info;
    struct kva_error error = {0};
    p->kernels->info(p->device, &info);
    printf("%s: %s, driver %s, compute %u.%u, %u multiprocessors, %.1f MiB in use at open, %.1f GiB free\n",
           info.backend, info.name, info.driver, info.compute_major, info.compute_minor, info.multiprocessors,
           (double)info.context_bytes / 1048576.0, (double)info.free_bytes / 1073741824.0);

    void *memory = NULL;
    const uint64_t before = p->kernels->used(p->device), asked = 5 * info.page_bytes + 1;
    if (parity_called(p, p->kernels->alloc(p->device, asked, &memory, &error), &error, "alloc")) {
        const uint64_t given = p->kernels->used(p->device) - before;
        parity_result(p, given == 6 * info.page_bytes, "alloc of 5 pages and a byte: %llu bytes given",
                      (unsigned long long)given);
        p->kernels->free(p->device, memory, asked);
    }
    const enum kva_status status = p->kernels->alloc(p->device, 1ull << 50, &memory, &error);
    parity_result(p, status == KVA_MACHINE && memory == NULL, "out of memory: %s", error.text);

    p->kernels->profile(p->device, true);
    double *x, milliseconds[KVA_N_STAGES];
    uint64_t calls[KVA_N_STAGES];
    float *values = parity_input(p, 1 << 16, KVA_F32, 1.0, &x);
    for (int i = 0; i < 300; i++) {
        p->kernels->stage_begin(p->device, KVA_STAGE_HEAD);
        if (!parity_called(p, p->kernels->softcap(p->device, values, 1 << 12, 30.0f, &error), &error, "softcap"))
            return;
        p->kernels->stage_end(p->device, KVA_STAGE_HEAD);
    }
    p->kernels->stage_times(p->device, milliseconds, calls);
    parity_result(p, calls[KVA_STAGE_HEAD] == 300 && milliseconds[KVA_STAGE_HEAD] > 0.0 && calls[KVA_STAGE_EMBED] == 0,
                  "stage times: %llu calls, %.3f ms", (unsigned long long)calls[KVA_STAGE_HEAD],
                  milliseconds[KVA_STAGE_HEAD]);
    p->kernels->stage_reset(p->device);
    p->kernels->profile(p->device, false);
    parity_release(p);
}
