// The parity program's common part: buffers on the device, random values, comparison. References are written here, in
// double precision, from the comments of kernels/kernels.h; nothing of kernels/cpu is used.
#ifndef KVA_PARITY_H
#define KVA_PARITY_H

#include "kernels/kernels.h"

#include <stdio.h>

struct parity {
    const struct kva_kernels *kernels;
    struct kva_device *device;
    enum kva_dtype act;
    uint64_t random;
    unsigned passed, failed;
    // freed together by parity_release
    struct {
        void *device, *host;
        uint64_t bytes;
    } held[512];
    size_t n_held;
};

double parity_random(struct parity *p);  // uniform in [-1, 1)
uint64_t parity_below(struct parity *p, uint64_t n);
double *parity_doubles(struct parity *p, uint64_t n);  // host memory, zeros

// `n` random values of `scale`, rounded to dtype, on the device; *values: the same on the host.
void *parity_input(struct parity *p, uint64_t n, enum kva_dtype dtype, double scale, double **values);
// The given values; NaN stays NaN.
void *parity_upload(struct parity *p, const double *values, uint64_t n, enum kva_dtype dtype);
void *parity_bytes(struct parity *p, const void *bytes, uint64_t n);
void *parity_poisoned(struct parity *p, uint64_t n, enum kva_dtype dtype);  // NaN everywhere
void *parity_raw(struct parity *p, uint64_t bytes);                         // whatever is there
double *parity_download(struct parity *p, const void *device, uint64_t n, enum kva_dtype dtype);
void parity_release(struct parity *p);

double parity_rounded(double x, enum kva_dtype dtype);
static inline double parity_limit(const struct parity *p, double f32, double bf16)
{
    return p->act == KVA_BF16 ? bf16 : f32;
}

// One line: ok or FAILED, the relative error ||out - expected|| / ||expected|| and the limit.
void parity_compare(struct parity *p, const double *out, const double *expected, uint64_t n, double limit,
                    const char *format, ...) __attribute__((format(printf, 6, 7)));
// Same values exactly, NaN equal to NaN.
void parity_same(struct parity *p, const double *out, const double *expected, uint64_t n, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void parity_result(struct parity *p, bool ok, const char *format, ...) __attribute__((format(printf, 3, 4)));
// A call's status: false, and a failed line, when it is not KVA_OK.
bool parity_called(struct parity *p, enum kva_status status, const struct kva_error *error, const char *what);

void parity_elementwise(struct parity *p);
void parity_linear(struct parity *p);
void parity_attention(struct parity *p);
void parity_mamba(struct parity *p);
void parity_device(struct parity *p);
void parity_time(struct parity *p);

#endif
