// Mamba-1's two sequential parts: the short causal convolution and the selective scan.
#include "cuda.cuh"

#include "ptx.cuh"

#include <stdio.h>

// ---------------------------------------------------------------- convolution

#define CONV_THREADS 128
#define CONV_ROWS 64  // of one block
#define MAX_TAPS 8

// A thread walks one channel down CONV_ROWS rows, the last MAX_TAPS inputs in registers. The inputs before a block's
// first row are rows of x too, or, before the span, the state (zeros at the start of a sequence). Only the block of the
// first rows touches the state.
template <typename T> __global__ void __launch_bounds__(CONV_THREADS) conv_kernel(struct kva_conv_args a)
{
    grid_begin();
    const struct kva_span span = a.spans[blockIdx.z];
    const uint64_t channel = blockIdx.x * (uint64_t)CONV_THREADS + threadIdx.x;
    const int64_t rows = span.rows, begin = (int64_t)blockIdx.y * CONV_ROWS;
    if (channel >= a.channels || begin >= rows)
        return;
    const int64_t end = begin + CONV_ROWS < rows ? begin + CONV_ROWS : rows;
    const int taps = (int)a.taps, kept = taps - 1;
    const bool begun = span.past > 0;  // else the state is zero, whatever the memory holds
    const T *x = (const T *)a.x + span.first_row * a.x_stride + channel;
    T *y = (T *)a.y + span.first_row * a.y_stride + channel;
    T *state = (T *)a.state + (span.sequence * a.channels + channel) * kept;
    const float bias = a.bias != NULL ? to_float(((const T *)a.bias)[channel]) : 0.0f;

    // both right-aligned: [MAX_TAPS - 1] belongs to the current row
    float weight[MAX_TAPS], input[MAX_TAPS];
#pragma unroll
    for (int i = 0; i < MAX_TAPS; i++) {
        const int tap = i - (MAX_TAPS - taps);
        const int64_t row = begin - (MAX_TAPS - 1) + i;  // of input[i] while the current row is `begin`
        weight[i] = tap >= 0 ? to_float(((const T *)a.weight)[channel * taps + tap]) : 0.0f;
        input[i] = 0.0f;
        if (tap >= 0 && i < MAX_TAPS - 1)
            input[i] = row >= 0 ? to_float(x[row * (int64_t)a.x_stride]) : begun ? to_float(state[kept + row]) : 0.0f;
    }
    if (begin == 0) {
        // the new state: the last inputs of the span, and of the old state where the span is shorter. Entry i takes
        // old entry i + rows, a later one, so going up overwrites nothing still needed.
        for (int i = 0; i < kept; i++) {
            const int64_t row = rows - kept + i;
            state[i] = row >= 0 ? x[row * (int64_t)a.x_stride] : begun ? state[kept + row] : from_float<T>(0.0f);
        }
    }
#pragma unroll 4
    for (int64_t row = begin; row < end; row++) {
        input[MAX_TAPS - 1] = to_float(x[row * (int64_t)a.x_stride]);
        float sum = bias;
#pragma unroll
        for (int i = 0; i < MAX_TAPS; i++)
            sum = fmaf(weight[i], input[i], sum);
        y[row * (int64_t)a.y_stride] = from_float<T>(sum / (1.0f + expf(-sum)));
#pragma unroll
        for (int i = 0; i < MAX_TAPS - 1; i++)
            input[i] = input[i + 1];
    }
}

static uint64_t most_rows(const struct kva_span *spans, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t s = 0; s < n; s++)
        most = spans[s].rows > most ? spans[s].rows : most;
    return most;
}

enum kva_status cuda_conv(struct kva_device *device, const struct kva_conv_args *all, struct kva_error *error)
{
    struct kva_conv_args a = *all;
    if (a.taps == 0 || a.taps > MAX_TAPS)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "conv", "%llu taps: 1 .. %d are supported", (u64)a.taps, MAX_TAPS);
    for (uint32_t first = 0; first < all->n_spans; first += a.n_spans) {
        a.n_spans = (uint32_t)at_most(all->n_spans - first, MAX_GRID_YZ);
        a.spans = all->spans + first;
        const uint64_t rows = most_rows(all->host_spans + first, a.n_spans);
        if (rows == 0 || a.channels == 0)
            continue;
        const dim3 grid((unsigned)divide_up(a.channels, CONV_THREADS), (unsigned)divide_up(rows, CONV_ROWS), a.n_spans);
        FOR_ACT(device, KVA_LAUNCH(conv_kernel<T>, grid, CONV_THREADS, 0, device, a));
    }
    CHECK_LAUNCH(error, "conv", "%u spans, %llu channels, %llu taps", all->n_spans, (u64)a.channels, (u64)a.taps);
    return KVA_OK;
}

// ---------------------------------------------------------------- scan

#define SCAN_THREADS 128
#define SCAN_ROWS 32   // rows staged at once
#define SCAN_STATES 4  // of one thread

// One chunk of a block's inputs, float32, ready for the loop.
template <int CHANNELS, int STATES> struct scan_stage {
    float x[SCAN_ROWS][CHANNELS], dt[SCAN_ROWS][CHANNELS];  // dt after softplus
    float b[SCAN_ROWS][STATES], c[SCAN_ROWS][STATES];       // zero from n_state on
};

// The same chunk on its way from device memory: this thread's share.
template <typename T, int CHANNELS, int STATES> struct scan_fetch {
    enum { PER_X = SCAN_ROWS * CHANNELS / SCAN_THREADS, PER_B = SCAN_ROWS * STATES / SCAN_THREADS };
    T x[PER_X], dt[PER_X], b[PER_B], c[PER_B];

    __device__ void load(const struct kva_scan_args &a, uint64_t first_row, uint32_t rows, uint64_t first_channel)
    {
#pragma unroll
        for (int i = 0; i < PER_X; i++) {
            const uint32_t at = threadIdx.x + i * SCAN_THREADS, row = at / CHANNELS;
            const uint64_t channel = first_channel + at % CHANNELS;
            const bool in = row < rows && channel < a.channels;
            x[i] = in ? ((const T *)a.x)[(first_row + row) * a.x_stride + channel] : from_float<T>(0.0f);
            dt[i] = in ? ((const T *)a.dt)[(first_row + row) * a.dt_stride + channel] : from_float<T>(0.0f);
        }
#pragma unroll
        for (int i = 0; i < PER_B; i++) {
            const uint32_t at = threadIdx.x + i * SCAN_THREADS, row = at / STATES, n = at % STATES;
            const bool in = row < rows && n < a.n_state;
            b[i] = in ? ((const T *)a.b)[(first_row + row) * a.bc_stride + n] : from_float<T>(0.0f);
            c[i] = in ? ((const T *)a.c)[(first_row + row) * a.bc_stride + n] : from_float<T>(0.0f);
        }
    }

    __device__ void store(struct scan_stage<CHANNELS, STATES> *stage, float dt_bias) const
    {
#pragma unroll
        for (int i = 0; i < PER_X; i++) {
            const uint32_t at = threadIdx.x + i * SCAN_THREADS;
            const float step = to_float(dt[i]) + dt_bias;
            stage->x[at / CHANNELS][at % CHANNELS] = to_float(x[i]);
            stage->dt[at / CHANNELS][at % CHANNELS] = step > 20.0f ? step : log1pf(expf(step));
        }
#pragma unroll
        for (int i = 0; i < PER_B; i++) {
            const uint32_t at = threadIdx.x + i * SCAN_THREADS;
            stage->b[at / STATES][at % STATES] = to_float(b[i]);
            stage->c[at / STATES][at % STATES] = to_float(c[i]);
        }
    }
};

// LANES neighbouring threads share a channel, each with SCAN_STATES states in registers. The rows come through two
// stages in shared memory: while one is walked, the next is on its way.
template <typename T, int LANES> __global__ void __launch_bounds__(SCAN_THREADS) scan_kernel(struct kva_scan_args a)
{
    grid_begin();
    enum { CHANNELS = SCAN_THREADS / LANES, STATES = LANES * SCAN_STATES };
    __shared__ __align__(16) struct scan_stage<CHANNELS, STATES> stages[2];
    __shared__ float outputs[2][SCAN_ROWS][CHANNELS];
    const struct kva_span span = a.spans[blockIdx.y];
    if (span.rows == 0)
        return;
    const uint64_t first_channel = blockIdx.x * (uint64_t)CHANNELS;
    const uint32_t mine = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const uint64_t channel = first_channel + mine;
    const bool owned = channel < a.channels;
    T *state = (T *)a.state + (span.sequence * a.channels + channel) * a.n_state;

    float h[SCAN_STATES], decay[SCAN_STATES];
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const uint32_t n = lane * SCAN_STATES + s;
        const bool in = owned && n < a.n_state;
        h[s] = in && span.past > 0 ? to_float(state[n]) : 0.0f;
        decay[s] = in ? -expf(a.a_log[channel * a.n_state + n]) * 1.44269504088896341f : 0.0f;  // A / ln 2
    }
    const float d = owned ? to_float(((const T *)a.d)[channel]) : 0.0f;
    // the channel whose dt this thread stages
    const uint64_t staged = first_channel + threadIdx.x % CHANNELS;
    const float dt_bias = staged < a.channels ? to_float(((const T *)a.dt_bias)[staged]) : 0.0f;

    scan_fetch<T, CHANNELS, STATES> fetch;
    fetch.load(a, span.first_row, span.rows < SCAN_ROWS ? span.rows : SCAN_ROWS, first_channel);
    fetch.store(&stages[0], dt_bias);
    __syncthreads();
    uint32_t current = 0;
    for (uint32_t done = 0; done < span.rows; done += SCAN_ROWS) {
        const uint32_t left = span.rows - done, rows = left < SCAN_ROWS ? left : SCAN_ROWS;
        const uint32_t next = left - rows < SCAN_ROWS ? left - rows : SCAN_ROWS;
        if (next > 0)
            fetch.load(a, (uint64_t)span.first_row + done + SCAN_ROWS, next, first_channel);
        const scan_stage<CHANNELS, STATES> *stage = &stages[current];
#pragma unroll 4
        for (uint32_t r = 0; r < rows; r++) {
            const float x = stage->x[r][mine], dt = stage->dt[r][mine];
            const pack<float, SCAN_STATES> b = *(const pack<float, SCAN_STATES> *)&stage->b[r][lane * SCAN_STATES];
            const pack<float, SCAN_STATES> c = *(const pack<float, SCAN_STATES> *)&stage->c[r][lane * SCAN_STATES];
            float y = 0.0f;
#pragma unroll
            for (int s = 0; s < SCAN_STATES; s++) {
                h[s] = fmaf(exp2_fast(dt * decay[s]), h[s], dt * x * b.v[s]);
                y = fmaf(c.v[s], h[s], y);
            }
#pragma unroll
            for (int offset = LANES / 2; offset > 0; offset /= 2)
                y += __shfl_xor_sync(0xffffffffu, y, offset);
            if (lane == 0)
                outputs[current][r][mine] = fmaf(d, x, y);
        }
        if (next > 0)
            fetch.store(&stages[current ^ 1], dt_bias);
        __syncthreads();
        for (uint32_t at = threadIdx.x; at < rows * CHANNELS; at += SCAN_THREADS) {
            const uint64_t row = (uint64_t)span.first_row + done + at / CHANNELS, to = first_channel + at % CHANNELS;
            if (to < a.channels)
                ((T *)a.y)[row * a.y_stride + to] = from_float<T>(outputs[current][at / CHANNELS][at % CHANNELS]);
        }
        current ^= 1;
    }
#pragma unroll
    for (int s = 0; s < SCAN_STATES; s++) {
        const uint32_t n = lane * SCAN_STATES + s;
        if (owned && n < a.n_state)
            state[n] = from_float<T>(h[s]);
    }
}

template <typename T> static void launch_scan(struct kva_device *device, const struct kva_scan_args &a)
{
    if (a.n_state <= 4 * SCAN_STATES) {
        const dim3 grid((unsigned)divide_up(a.channels, SCAN_THREADS / 4), a.n_spans);
        KVA_LAUNCH((scan_kernel<T, 4>), grid, SCAN_THREADS, 0, device, a);
    } else {
        const dim3 grid((unsigned)divide_up(a.channels, SCAN_THREADS / 16), a.n_spans);
        KVA_LAUNCH((scan_kernel<T, 16>), grid, SCAN_THREADS, 0, device, a);
    }
}

enum kva_status cuda_scan(struct kva_device *device, const struct kva_scan_args *all, struct kva_error *error)
{
    struct kva_scan_args a = *all;
    if (a.n_state == 0 || a.n_state > 16 * SCAN_STATES)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "scan", "n_state %llu: 1 .. %d are supported", (u64)a.n_state,
                        16 * SCAN_STATES);
    for (uint32_t first = 0; a.channels > 0 && first < all->n_spans; first += a.n_spans) {
        a.n_spans = (uint32_t)at_most(all->n_spans - first, MAX_GRID_YZ);
        a.spans = all->spans + first;
        FOR_ACT(device, launch_scan<T>(device, a));
    }
    CHECK_LAUNCH(error, "scan", "%u spans, %llu channels, n_state %llu", all->n_spans, (u64)a.channels, (u64)a.n_state);
    return KVA_OK;
}

cudaError_t prepare_mamba(void)
{
    PREPARE(conv_kernel<float>);
    PREPARE(conv_kernel<bf16>);
    PREPARE(scan_kernel<float, 4>);
    PREPARE(scan_kernel<float, 16>);
    PREPARE(scan_kernel<bf16, 4>);
    PREPARE(scan_kernel<bf16, 16>);
    return cudaSuccess;
}
