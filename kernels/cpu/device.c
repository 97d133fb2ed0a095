// The CPU as a device: memory in whole pages, mapped bytes as the account, wall time as the stage timer.
#include <cblas.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "kernels/cpu/cpu.h"

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

// Bytes that the process has mapped: the first number of /proc/self/statm, in pages.
static uint64_t process_bytes(uint64_t page_bytes)
{
    // read without stdio, whose buffer would be an allocation of its own
    char line[128];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t length = read(file, line, sizeof line - 1);
    close(file);
    line[length > 0 ? length : 0] = '\0';
    return strtoull(line, NULL, 10) * page_bytes;
}

static uint64_t available_bytes(void)
{
    static const char FIELD[] = "MemAvailable:";
    uint64_t kib = 0;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL)
        return UINT64_MAX;
    while (kib == 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, FIELD, sizeof FIELD - 1) == 0)
            kib = strtoull(line + sizeof FIELD - 1, NULL, 10);
    fclose(file);
    return kib == 0 ? UINT64_MAX : kib * 1024;
}

static void close_device(struct kva_device *device)
{
    if (device == NULL)
        return;
    free(device->x_block);
    free(device->w_block);
    free(device->y_block);
    free(device);
}

static void info(struct kva_device *device, struct kva_device_info *info)
{
    *info = (struct kva_device_info){
        .backend = "cpu",
        .total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * device->page_bytes,
        .free_bytes = device->free_bytes,
        .page_bytes = device->page_bytes,
        .context_bytes = device->context_bytes,
        .multiprocessors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
    };
    snprintf(info->name, sizeof info->name, "CPU");
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "model name : %127[^\n]", info->name) == 1)
            break;
    if (file != NULL)
        fclose(file);
    snprintf(info->driver, sizeof info->driver, "%.63s", openblas_get_config());
}

static enum kva_status allocate(struct kva_device *device, uint64_t bytes, void **memory, struct kva_error *error)
{
    *memory = NULL;
    uint64_t room, free_bytes = available_bytes();
    if (!kva_round_up(kva_max(bytes, 1), device->page_bytes, &room) || room > free_bytes)
        return kva_fail(error, KVA_MACHINE, NULL, NULL, "%" PRIu64 " bytes asked, %" PRIu64 " bytes free", bytes,
                        free_bytes);
    const uint64_t before = process_bytes(device->page_bytes);
    void *pages = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED)
        return kva_fail(error, KVA_MACHINE, NULL, NULL, "%" PRIu64 " bytes asked: the system maps no more", bytes);
    device->mapped_bytes += process_bytes(device->page_bytes) - before;
    *memory = pages;
    return KVA_OK;
}

static void release(struct kva_device *device, void *memory, uint64_t bytes)
{
    uint64_t room;
    if (memory == NULL || !kva_round_up(kva_max(bytes, 1), device->page_bytes, &room))
        return;
    const uint64_t before = process_bytes(device->page_bytes);
    munmap(memory, room);
    device->mapped_bytes -= before - process_bytes(device->page_bytes);
}

// The process also has a heap and a BLAS library, which are nobody's allocation here: what it held at the start, and
// what the system counted when memory of ours was mapped.
static uint64_t used(struct kva_device *device)
{
    return device->context_bytes + device->mapped_bytes;
}

static enum kva_status open_device(enum kva_dtype act, struct kva_device **out, struct kva_error *error)
{
    *out = NULL;
    struct kva_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return kva_fail_memory(error, sizeof *device);
    device->act = act;
    device->page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
    if (act == KVA_BF16) {
        device->x_block = calloc(SCRATCH_FLOATS, sizeof(float));
        device->w_block = calloc(SCRATCH_FLOATS, sizeof(float));
        device->y_block = calloc(SCRATCH_FLOATS, sizeof(float));
        if (device->x_block == NULL || device->w_block == NULL || device->y_block == NULL) {
            close_device(device);
            return kva_fail_memory(error, 3 * (uint64_t)SCRATCH_FLOATS * sizeof(float));
        }
    }
    // a first product makes the BLAS library take its own buffers before memory is counted
    enum { SIDE = 128 };
    float *matrix = calloc(3 * SIDE * SIDE, sizeof(float));
    if (matrix == NULL) {
        close_device(device);
        return kva_fail_memory(error, 3 * SIDE * SIDE * sizeof(float));
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, SIDE, SIDE, SIDE, 1, matrix, SIDE, matrix + SIDE * SIDE, SIDE,
                0, matrix + 2 * SIDE * SIDE, SIDE);
    free(matrix);
    // and a first mapping runs the code that counts: a checker that translates code as it meets it maps memory too
    void *first;
    if (allocate(device, 1, &first, error) != KVA_OK) {
        close_device(device);
        return KVA_MACHINE;
    }
    release(device, first, 1);
    device->mapped_bytes = 0;
    device->context_bytes = process_bytes(device->page_bytes);
    device->free_bytes = available_bytes();
    *out = device;
    return KVA_OK;
}

static void set_workspace(struct kva_device *device, void *memory, uint64_t bytes)
{
    (void)device, (void)memory, (void)bytes;
}

static enum kva_status transfer(struct kva_device *device, void *to, const void *from, uint64_t bytes,
                                struct kva_error *error)
{
    (void)device, (void)error;
    memcpy(to, from, bytes);
    return KVA_OK;
}

static enum kva_status clear(struct kva_device *device, void *memory, uint64_t bytes, struct kva_error *error)
{
    (void)device, (void)error;
    memset(memory, 0, bytes);
    return KVA_OK;
}

static enum kva_status sync_device(struct kva_device *device, struct kva_error *error)
{
    (void)device, (void)error;
    return KVA_OK;
}

static void profile(struct kva_device *device, bool on)
{
    device->profile = on;
}

static void stage_begin(struct kva_device *device, enum kva_stage stage)
{
    (void)stage;
    if (device->profile)
        device->stage_start = now_ms();
}

static void stage_end(struct kva_device *device, enum kva_stage stage)
{
    if (!device->profile)
        return;
    device->stage_ms[stage] += now_ms() - device->stage_start;
    device->stage_calls[stage]++;
}

static void stage_times(struct kva_device *device, double milliseconds[KVA_N_STAGES], uint64_t calls[KVA_N_STAGES])
{
    memcpy(milliseconds, device->stage_ms, sizeof device->stage_ms);
    memcpy(calls, device->stage_calls, sizeof device->stage_calls);
}

static void stage_reset(struct kva_device *device)
{
    memset(device->stage_ms, 0, sizeof device->stage_ms);
    memset(device->stage_calls, 0, sizeof device->stage_calls);
}

enum kva_status kva_cpu_ceilings(struct kva_device *device, uint64_t side, double *read_rate, double *flop_rate,
                                 struct kva_error *error)
{
    (void)device;
    const uint64_t read_floats = UINT64_C(64) << 20;
    uint64_t elements;
    if (side > INT32_MAX || !kva_mul3(side, side, 3 * sizeof(float), &elements))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "side", "is too large");
    elements = kva_max(elements / sizeof(float), read_floats);
    float *memory = malloc(elements * sizeof(float));
    if (memory == NULL)
        return kva_fail_memory(error, elements * sizeof(float));
    for (uint64_t i = 0; i < elements; i++)
        memory[i] = (float)(i * 2654435761u % 1024) / 1024 - 0.5f;
    double best_read = 1e300, best_product = 1e300;
    float sum = 0;
    for (int repeat = 0; repeat < 3; repeat++) {
        double start = now_ms();
        sum += cblas_sasum((int)read_floats, memory, 1);
        best_read = now_ms() - start < best_read ? now_ms() - start : best_read;
        start = now_ms();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)side, (int)side, (int)side, 1, memory, (int)side,
                    memory + side * side, (int)side, 0, memory + 2 * side * side, (int)side);
        best_product = now_ms() - start < best_product ? now_ms() - start : best_product;
    }
    free(memory);
    if (!(sum > 0))  // also keeps the sums from being left out
        return kva_fail(error, KVA_MACHINE, NULL, "sasum", "the BLAS library gave a sum of %g", (double)sum);
    *read_rate = (double)read_floats * sizeof(float) / best_read * 1e3;
    *flop_rate = 2.0 * (double)side * (double)side * (double)side / best_product * 1e3;
    return KVA_OK;
}

static const struct kva_kernels CPU = {
    .abi = KVA_KERNELS_ABI,
    .name = "cpu",
    .open = open_device,
    .close = close_device,
    .info = info,
    .alloc = allocate,
    .free = release,
    .used = used,
    .set_workspace = set_workspace,
    .workspace_bytes = 0,
    .upload = transfer,
    .download = transfer,
    .clear = clear,
    .sync = sync_device,
    .profile = profile,
    .stage_begin = stage_begin,
    .stage_end = stage_end,
    .stage_times = stage_times,
    .stage_reset = stage_reset,
    .ceilings = kva_cpu_ceilings,
    .fill = kva_cpu_fill,
    .embed = kva_cpu_embed,
    .linear = kva_cpu_linear,
    .add_bias = kva_cpu_add_bias,
    .add = kva_cpu_add,
    .norm = kva_cpu_norm,
    .head_norm = kva_cpu_head_norm,
    .rope = kva_cpu_rope,
    .attention = kva_cpu_attention,
    .cache_write = kva_cpu_cache_write,
    .glu = kva_cpu_glu,
    .conv = kva_cpu_conv,
    .scan = kva_cpu_scan,
    .gate = kva_cpu_gate,
    .differential = kva_cpu_differential,
    .gather = kva_cpu_gather,
    .softcap = kva_cpu_softcap,
    .argmax = kva_cpu_argmax,
};

const struct kva_kernels *kva_kernels(void);
const struct kva_kernels *kva_kernels(void)
{
    return &CPU;
}
