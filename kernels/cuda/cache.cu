// Stores rows of this pass in the caches: row r of a span goes to slot (past + r) % cache_rows. Of a span longer than
// the cache only the last cache_rows rows are stored, so no slot is written twice.
#include "cuda.cuh"

#include <stdio.h>

#define CACHE_THREADS 128

// Unit: uint4, or one element where a width or a pointer does not allow that. Widths and strides in units.
template <typename Unit>
__global__ void __launch_bounds__(CACHE_THREADS) cache_write_kernel(struct kva_cache_write_args a, uint32_t first_span)
{
    grid_begin();
    const struct kva_span span = a.spans[first_span + blockIdx.y];
    const uint64_t first = span.rows > a.cache_rows ? span.rows - a.cache_rows : 0;
    for (uint64_t r = first + blockIdx.x; r < span.rows; r += gridDim.x) {
        const uint64_t row = span.first_row + r;
        const uint64_t slot = span.sequence * a.cache_rows + (span.past + r) % a.cache_rows;
        const Unit *k = (const Unit *)a.k + row * a.k_stride, *v = (const Unit *)a.v + row * a.v_stride;
        Unit *cache_k = (Unit *)a.cache_k + slot * a.k_width, *cache_v = (Unit *)a.cache_v + slot * a.v_width;
        for (uint32_t i = threadIdx.x; i < a.k_width; i += blockDim.x)
            cache_k[i] = k[i];
        for (uint32_t i = threadIdx.x; i < a.v_width; i += blockDim.x)
            cache_v[i] = v[i];
    }
}

template <typename Unit>
static void launch_cache_write(struct kva_device *device, struct kva_cache_write_args a, uint64_t elements_a_unit)
{
    a.k_stride /= elements_a_unit;
    a.v_stride /= elements_a_unit;
    a.k_width /= elements_a_unit;
    a.v_width /= elements_a_unit;
    uint64_t rows = 0;
    for (uint32_t s = 0; s < a.n_spans; s++)
        rows = a.host_spans[s].rows > rows ? a.host_spans[s].rows : rows;
    rows = at_most(rows, a.cache_rows);
    for (uint32_t first = 0; rows > 0 && first < a.n_spans; first += MAX_GRID_YZ) {
        const dim3 grid((unsigned)rows, (unsigned)at_most(a.n_spans - first, MAX_GRID_YZ));
        KVA_LAUNCH(cache_write_kernel<Unit>, grid, CACHE_THREADS, 0, device, a, first);
    }
}

enum kva_status cuda_cache_write(struct kva_device *device, const struct kva_cache_write_args *a,
                                 struct kva_error *error)
{
    const uint64_t n = 16 / act_bytes(device);
    if (a->n_spans == 0 || a->cache_rows == 0)
        return KVA_OK;
    if (a->k_stride % n == 0 && a->v_stride % n == 0 && a->k_width % n == 0 && a->v_width % n == 0 && aligned16(a->k) &&
        aligned16(a->v) && aligned16(a->cache_k) && aligned16(a->cache_v))
        launch_cache_write<uint4>(device, *a, n);
    else if (device->act == KVA_BF16)
        launch_cache_write<uint16_t>(device, *a, 1);
    else
        launch_cache_write<uint32_t>(device, *a, 1);
    CHECK_LAUNCH(error, "cache_write", "%u spans, widths %llu and %llu, %llu cache rows", a->n_spans, (u64)a->k_width,
                 (u64)a->v_width, (u64)a->cache_rows);
    return KVA_OK;
}

cudaError_t prepare_cache(void)
{
    PREPARE(cache_write_kernel<uint4>);
    PREPARE(cache_write_kernel<uint32_t>);
    PREPARE(cache_write_kernel<uint16_t>);
    return cudaSuccess;
}
