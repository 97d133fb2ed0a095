// parity MODULE [--time] [--seed N] [f32|bf16]: compares a kernel module (kvatlas-cuda.so, or its emulation) with
// references in double precision. One line a check; the last line counts; exit 1 when a check failed.
#include "parity.h"

#include <dlfcn.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double parity_random(struct parity *p)
{
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    uint64_t z = p->random;
    z = (z ^ (z >> 33)) * 0xff51afd7ed558ccdu;
    z ^= z >> 33;
    return (double)(int64_t)z / 9223372036854775808.0;
}

uint64_t parity_below(struct parity *p, uint64_t n)
{
    return (uint64_t)((parity_random(p) * 0.5 + 0.5) * (double)n) % n;
}

static uint16_t bf16_of(double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    if (isnan(f))
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double double_of(uint16_t bf16)
{
    const uint32_t bits = (uint32_t)bf16 << 16;
    float f;
    memcpy(&f, &bits, 4);
    return (double)f;
}

double parity_rounded(double x, enum kva_dtype dtype)
{
    return dtype == KVA_BF16 ? double_of(bf16_of(x)) : (double)(float)x;
}

static void *must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "out of host memory\n");
        exit(4);
    }
    return memory;
}

static void hold(struct parity *p, void *device, void *host, uint64_t bytes)
{
    if (p->n_held == sizeof p->held / sizeof p->held[0]) {
        fprintf(stderr, "too many buffers in one check\n");
        exit(4);
    }
    p->held[p->n_held].device = device;
    p->held[p->n_held].host = host;
    p->held[p->n_held++].bytes = bytes;
}

void parity_release(struct parity *p)
{
    for (size_t i = 0; i < p->n_held; i++) {
        if (p->held[i].device != NULL)
            p->kernels->free(p->device, p->held[i].device, p->held[i].bytes);
        free(p->held[i].host);
    }
    p->n_held = 0;
}

double *parity_doubles(struct parity *p, uint64_t n)
{
    double *values = must(calloc(n > 0 ? n : 1, sizeof *values));
    hold(p, NULL, values, 0);
    return values;
}

static void stop_on(enum kva_status status, const struct kva_error *error)
{
    if (status == KVA_OK)
        return;
    fprintf(stderr, "FAILED: %s: %s\n", error->key, error->text);
    exit(1);
}

void *parity_raw(struct parity *p, uint64_t bytes)
{
    struct kva_error error = {0};
    void *memory = NULL;
    stop_on(p->kernels->alloc(p->device, bytes > 0 ? bytes : 4, &memory, &error), &error);
    hold(p, memory, NULL, bytes);
    return memory;
}

void *parity_bytes(struct parity *p, const void *bytes, uint64_t n)
{
    struct kva_error error = {0};
    void *memory = parity_raw(p, n);
    stop_on(p->kernels->upload(p->device, memory, bytes, n, &error), &error);
    stop_on(p->kernels->sync(p->device, &error), &error);
    return memory;
}

void *parity_upload(struct parity *p, const double *values, uint64_t n, enum kva_dtype dtype)
{
    const uint64_t size = dtype == KVA_BF16 ? 2 : 4;
    unsigned char *bytes = must(malloc(n * size + 4));
    for (uint64_t i = 0; i < n; i++) {
        const uint16_t half = bf16_of(values[i]);
        const float whole = (float)values[i];
        memcpy(bytes + i * size, dtype == KVA_BF16 ? (const void *)&half : (const void *)&whole, size);
    }
    void *memory = parity_bytes(p, bytes, n * size);
    free(bytes);
    return memory;
}

void *parity_input(struct parity *p, uint64_t n, enum kva_dtype dtype, double scale, double **values)
{
    *values = parity_doubles(p, n);
    for (uint64_t i = 0; i < n; i++)
        (*values)[i] = parity_rounded(scale * parity_random(p), dtype);
    return parity_upload(p, *values, n, dtype);
}

void *parity_poisoned(struct parity *p, uint64_t n, enum kva_dtype dtype)
{
    double *values = parity_doubles(p, n);
    for (uint64_t i = 0; i < n; i++)
        values[i] = NAN;
    return parity_upload(p, values, n, dtype);
}

double *parity_download(struct parity *p, const void *device, uint64_t n, enum kva_dtype dtype)
{
    const uint64_t size = dtype == KVA_BF16 ? 2 : 4;
    struct kva_error error = {0};
    unsigned char *bytes = must(malloc(n * size + 4));
    stop_on(p->kernels->download(p->device, bytes, device, n * size, &error), &error);
    double *values = parity_doubles(p, n);
    for (uint64_t i = 0; i < n; i++) {
        uint16_t half;
        float whole;
        memcpy(&half, bytes + i * size, 2);
        memcpy(&whole, bytes + i * size, dtype == KVA_BF16 ? 2 : 4);
        values[i] = dtype == KVA_BF16 ? double_of(half) : (double)whole;
    }
    free(bytes);
    return values;
}

static void print_result(struct parity *p, bool ok, const char *format, va_list arguments, const char *tail)
{
    char text[256];
    vsnprintf(text, sizeof text, format, arguments);
    printf("%s %-4s %s%s\n", ok ? "ok    " : "FAILED", p->act == KVA_BF16 ? "bf16" : "f32", text, tail);
    fflush(stdout);
    if (ok)
        p->passed++;
    else
        p->failed++;
}

void parity_result(struct parity *p, bool ok, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_result(p, ok, format, arguments, "");
    va_end(arguments);
}

void parity_compare(struct parity *p, const double *out, const double *expected, uint64_t n, double limit,
                    const char *format, ...)
{
    double difference = 0.0, norm = 0.0;
    uint64_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(out[i]))
            bad++;
        difference += (out[i] - expected[i]) * (out[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    const double error = norm > 0.0 ? sqrt(difference / norm) : sqrt(difference);
    char tail[96] = "";
    snprintf(tail, sizeof tail, bad > 0 ? ": %.2e (limit %.0e), %llu of %llu not finite" : ": %.2e (limit %.0e)", error,
             limit, (unsigned long long)bad, (unsigned long long)n);
    va_list arguments;
    va_start(arguments, format);
    print_result(p, bad == 0 && error <= limit, format, arguments, tail);
    va_end(arguments);
}

void parity_same(struct parity *p, const double *out, const double *expected, uint64_t n, const char *format, ...)
{
    uint64_t differ = 0;
    for (uint64_t i = 0; i < n; i++)
        if (out[i] != expected[i] && !(isnan(out[i]) && isnan(expected[i])))
            differ++;
    char tail[64] = ": same bits";
    if (differ > 0)
        snprintf(tail, sizeof tail, ": %llu of %llu differ", (unsigned long long)differ, (unsigned long long)n);
    va_list arguments;
    va_start(arguments, format);
    print_result(p, differ == 0, format, arguments, tail);
    va_end(arguments);
}

bool parity_called(struct parity *p, enum kva_status status, const struct kva_error *error, const char *what)
{
    if (status != KVA_OK)
        parity_result(p, false, "%s: %s: %s", what, error->key, error->text);
    return status == KVA_OK;
}

int main(int argc, char **argv)
{
    static struct parity p;
    bool time_mode = false;
    const char *only = "", *path = NULL;
    p.random = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--time") == 0)
            time_mode = true;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            p.random = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "f32") == 0 || strcmp(argv[i], "bf16") == 0)
            only = argv[i];
        else
            path = argv[i];
    }
    if (path == NULL) {
        fprintf(stderr, "usage: parity MODULE [--time] [--seed N] [f32|bf16]\n");
        return 2;
    }
    printf("seed %llu\n", (unsigned long long)p.random);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    kva_kernels_entry entry = NULL;
    if (module != NULL)
        *(void **)&entry = dlsym(module, KVA_KERNELS_SYMBOL);
    if (entry == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 4;
    }
    p.kernels = entry();
    if (p.kernels->abi != KVA_KERNELS_ABI) {
        fprintf(stderr, "%s: ABI %u, expected %u\n", path, p.kernels->abi, KVA_KERNELS_ABI);
        return 4;
    }
    static const enum kva_dtype types[] = {KVA_F32, KVA_BF16};
    for (int i = 0; i < 2; i++) {
        if (only[0] != '\0' && (strcmp(only, "bf16") == 0) != (types[i] == KVA_BF16))
            continue;
        struct kva_error error = {0};
        p.act = types[i];
        const enum kva_status status = p.kernels->open(p.act, &p.device, &error);
        if (status != KVA_OK) {
            fprintf(stderr, "open: %s: %s\n", error.key, error.text);
            return 4;
        }
        const uint64_t workspace_bytes = p.kernels->workspace_bytes;
        void *workspace = NULL;
        if (workspace_bytes > 0) {
            stop_on(p.kernels->alloc(p.device, workspace_bytes, &workspace, &error), &error);
            p.kernels->set_workspace(p.device, workspace, workspace_bytes);
        }
        const uint64_t used = p.kernels->used(p.device);
        if (time_mode) {
            parity_time(&p);
        } else {
            parity_device(&p);
            parity_elementwise(&p);
            parity_linear(&p);
            parity_mamba(&p);
            parity_attention(&p);
        }
        parity_release(&p);
        // code that a library loads on the way is device memory too: open should have loaded all there is
        const uint64_t grown = p.kernels->used(p.device) - used;
        parity_result(&p, grown == 0 || grown > UINT64_MAX / 2, "device memory grown behind our back: %lld bytes",
                      (long long)grown);
        p.kernels->free(p.device, workspace, workspace_bytes);
        p.kernels->close(p.device);
    }
    printf("%u passed, %u failed\n", p.passed, p.failed);
    return p.failed > 0 ? 1 : 0;
}
