// The emulated machine: coroutines for threads, barriers, and the little of the runtime and of cuBLAS that is called.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <chrono>
#include <map>
#include <stdlib.h>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define UNPOISON(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define UNPOISON(memory, bytes) ((void)(memory), (void)(bytes))
#endif

#define STACK_BYTES (256u << 10)
#define SLOT_BYTES 64u

emulated_place emulated_now;
unsigned char *emulated_dynamic_shared;

// ---------------------------------------------------------------- coroutines

extern "C" void emulated_switch(void **from, void *to);
asm(R"(
.text
.globl emulated_switch
.hidden emulated_switch
.type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulated_switch, . - emulated_switch
)");

struct copy {
    void *to;
    const void *from;
    bool in;
};

struct thread {
    void *sp;
    unsigned char *stack;
    emulated_place place;
    unsigned index, exchanges;
    bool done;
    std::vector<std::vector<copy>> copies;  // committed groups, oldest first
    std::vector<copy> open;
};

struct barrier {
    unsigned arrived, generation;
};

struct warp {
    struct barrier barrier;
    unsigned lanes;
    unsigned char slots[2][32][SLOT_BYTES];
};

static std::vector<thread> threads;

// the stacks are kept for the next launch, and released when the module is
static struct stacks {
    ~stacks()
    {
        for (thread &t : threads)
            free(t.stack);
    }
} stacks;
static std::vector<warp> warps;
static struct barrier block_barrier;
static unsigned n_threads, alive;
static struct thread *running;
static void *scheduler_sp;
static const std::function<void()> *running_body;
static const char *running_name;
static bool progressed;
static uint32_t order = 1;

[[noreturn]] static void fail(const char *what)
{
    fprintf(stderr, "emulated %s, block %u %u %u: %s\n", running_name, emulated_now.block.x, emulated_now.block.y,
            emulated_now.block.z, what);
    abort();
}

static void yield(void)
{
    struct thread *me = running;
    emulated_switch(&me->sp, scheduler_sp);
}

static void release(struct barrier *b)
{
    b->arrived = 0;
    b->generation++;
    progressed = true;
}

static void wait_at(struct barrier *b, unsigned needed)
{
    const unsigned generation = b->generation;
    if (++b->arrived == needed)
        release(b);
    while (b->generation == generation)
        yield();
}

void __syncthreads(void)
{
    wait_at(&block_barrier, alive);
}

const unsigned char *emulated_exchange(const void *mine, size_t bytes, size_t *stride)
{
    if (bytes > SLOT_BYTES)
        fail("an exchange of too many bytes");
    struct thread *me = running;
    struct warp *w = &warps[me->index / 32];
    unsigned char(*slots)[SLOT_BYTES] = w->slots[me->exchanges++ % 2];
    memcpy(slots[me->index % 32], mine, bytes);
    wait_at(&w->barrier, 32);  // a warp with lanes that left, or never were, hangs: the caller said all 32 take part
    *stride = SLOT_BYTES;
    return slots[0];
}

static void do_copies(struct thread *me, size_t left)
{
    while (me->copies.size() > left) {
        for (const struct copy &c : me->copies.front())
            if (c.in)
                memcpy(c.to, c.from, 16);
            else
                memset(c.to, 0, 16);
        me->copies.erase(me->copies.begin());
    }
}

void emulated_copy_async(void *to, const void *from, bool in)
{
    if (((uintptr_t)to | (in ? (uintptr_t)from : 0)) % 16 != 0)
        fail("an asynchronous copy that is not aligned");
    running->open.push_back({to, from, in});
}

void emulated_copy_commit(void)
{
    running->copies.push_back(std::move(running->open));
    running->open.clear();
}

void emulated_copy_wait(int left)
{
    do_copies(running, (size_t)left);
}

static void thread_main(void)
{
    (*running_body)();
    if (!running->open.empty())
        emulated_copy_commit();
    do_copies(running, 0);
    running->done = true;
    alive--;
    progressed = true;
    if (alive > 0 && block_barrier.arrived == alive)
        release(&block_barrier);
    yield();
    fail("a finished thread ran on");
}

static void start_thread(struct thread *t, unsigned index, dim3 block)
{
    if (t->stack == NULL)
        t->stack = (unsigned char *)aligned_alloc(4096, STACK_BYTES);
    UNPOISON(t->stack, STACK_BYTES);
    t->index = index;
    t->exchanges = 0;
    t->done = false;
    t->copies.clear();
    t->open.clear();
    t->place = emulated_now;
    t->place.thread = dim3(index % block.x, index / block.x % block.y, index / block.x / block.y);
    void **sp = (void **)(t->stack + STACK_BYTES);
    *--sp = NULL;                  // keeps the stack aligned as after a call
    *--sp = (void *)&thread_main;  // where the first switch returns to
    for (int i = 0; i < 6; i++)
        *--sp = NULL;
    t->sp = sp;
}

static void run_block(dim3 block)
{
    n_threads = alive = block.x * block.y * block.z;
    if (threads.size() < n_threads)
        threads.resize(n_threads);
    warps.assign((n_threads + 31) / 32, warp());
    memset(&block_barrier, 0, sizeof block_barrier);
    for (unsigned i = 0; i < n_threads; i++)
        start_thread(&threads[i], i, block);
    const emulated_place outside = emulated_now;
    while (alive > 0) {
        progressed = false;
        order = order * 1664525u + 1013904223u;
        const unsigned from = (order >> 8) % n_threads;
        const bool down = order >> 31;
        for (unsigned i = 0; i < n_threads; i++) {
            struct thread *t = &threads[(from + (down ? n_threads - i : i)) % n_threads];
            if (t->done)
                continue;
            running = t;
            emulated_now = t->place;
            emulated_switch(&scheduler_sp, t->sp);
        }
        if (!progressed)
            fail("threads wait for each other");
    }
    emulated_now = outside;
}

void emulated_launch(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &body)
{
    running_name = name;
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
        block.x * block.y * block.z > 1024 || block.x * block.y * block.z == 0 || shared > 227 * 1024)
        fail("a launch that a device would refuse");
    running_body = &body;
    emulated_now.block_dim = block;
    emulated_now.grid_dim = grid;
    unsigned char *memory = shared > 0 ? (unsigned char *)aligned_alloc(128, (shared + 127) / 128 * 128) : NULL;
    emulated_dynamic_shared = memory;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                emulated_now.block = dim3(x, y, z);
                if (memory != NULL)
                    memset(memory, 0xff, shared);
                run_block(block);
            }
    free(memory);
}

// ---------------------------------------------------------------- the runtime

static size_t allocated;
static std::map<void *, size_t> sizes;

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaErrorMemoryAllocation ? "out of memory" : "emulated error";
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated");
    properties->multiProcessorCount = 132;
    properties->major = 9;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 13000;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *)
{
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *, enum cudaFuncAttribute, int value)
{
    return value > 227 * 1024 ? cudaErrorInvalidValue : cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    *stream = NULL;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t)
{
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t)
{
    return cudaSuccess;
}

// Filled with NaN, so that what nobody wrote is seen.
cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    const size_t whole = (bytes + 255) / 256 * 256;
    if (whole < bytes || whole > (size_t)16 << 30)
        return cudaErrorMemoryAllocation;
    *memory = aligned_alloc(256, whole);
    if (*memory == NULL)
        return cudaErrorMemoryAllocation;
    memset(*memory, 0xff, whole);
    allocated += bytes;
    sizes[*memory] = bytes;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    if (memory != NULL) {
        allocated -= sizes[memory];
        sizes.erase(memory);
        free(memory);
    }
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    *total_bytes = (size_t)16 << 30;
    *free_bytes = *total_bytes - allocated;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind, cudaStream_t)
{
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t)
{
    memset(memory, value, bytes);
    return cudaSuccess;
}

struct emulated_event {
    std::chrono::steady_clock::time_point at;
};

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new emulated_event();
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    event->at = std::chrono::steady_clock::now();
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    *milliseconds = std::chrono::duration<float, std::milli>(end->at - begin->at).count();
    return cudaSuccess;
}

// ---------------------------------------------------------------- cuBLAS

#define MOST_PRODUCTS (1ll << 26)  // multiplications; open's warm-up, on zeros, is beyond it and is skipped

cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
    *handle = (cublasHandle_t)&allocated;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "invalid value";
}

static float element(const void *memory, cudaDataType_t type, int64_t at)
{
    return type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)memory)[at]) : ((const float *)memory)[at];
}

cublasStatus_t cublasGemmEx_64(cublasHandle_t, cublasOperation_t transpose_a, cublasOperation_t transpose_b, int64_t m,
                               int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType_t a_type,
                               int64_t a_stride, const void *b, cudaDataType_t b_type, int64_t b_stride,
                               const void *beta, void *c, cudaDataType_t c_type, int64_t c_stride, cublasComputeType_t,
                               cublasGemmAlgo_t)
{
    if (transpose_a != CUBLAS_OP_T || transpose_b != CUBLAS_OP_N || a_stride < k || b_stride < k || c_stride < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m * n * k > MOST_PRODUCTS)
        return CUBLAS_STATUS_SUCCESS;
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            double sum = 0.0;
            for (int64_t l = 0; l < k; l++)
                sum += (double)element(a, a_type, i * a_stride + l) * (double)element(b, b_type, j * b_stride + l);
            float value = *(const float *)alpha * (float)sum;
            if (*(const float *)beta != 0.0f)
                value += *(const float *)beta * element(c, c_type, j * c_stride + i);
            if (c_type == CUDA_R_16BF)
                ((__nv_bfloat16 *)c)[j * c_stride + i] = __float2bfloat16_rn(value);
            else
                ((float *)c)[j * c_stride + i] = value;
        }
    return CUBLAS_STATUS_SUCCESS;
}
