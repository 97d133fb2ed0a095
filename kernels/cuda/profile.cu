// Stage times for --profile: a pair of events around every stage, from a pool that grows and is used again.
#include "cuda.cuh"

#include <stdlib.h>

// Room for one more pair. False: no memory or no event, and the stage goes untimed.
static bool grow_events(struct kva_device *device)
{
    if (device->n_events < device->allocated_events)
        return true;
    const size_t more = device->allocated_events == 0 ? 256 : 2 * device->allocated_events;
    struct stage_events *events = (struct stage_events *)realloc(device->events, more * sizeof *events);
    if (events == NULL)
        return false;
    device->events = events;
    while (device->allocated_events < more) {
        struct stage_events *e = &events[device->allocated_events];
        if (cudaEventCreate(&e->begin) != cudaSuccess)
            break;
        if (cudaEventCreate(&e->end) != cudaSuccess) {
            cudaEventDestroy(e->begin);
            break;
        }
        device->allocated_events++;
    }
    return device->n_events < device->allocated_events;
}

void cuda_profile(struct kva_device *device, bool on)
{
    device->profiling = on;
    device->open_event = SIZE_MAX;
}

void cuda_stage_begin(struct kva_device *device, enum kva_stage stage)
{
    if (!device->profiling || !grow_events(device))
        return;
    struct stage_events *e = &device->events[device->n_events];
    e->stage = stage;
    if (cudaEventRecord(e->begin, device->stream) == cudaSuccess)
        device->open_event = device->n_events++;
}

void cuda_stage_end(struct kva_device *device, enum kva_stage stage)
{
    if (!device->profiling || device->open_event == SIZE_MAX || device->events[device->open_event].stage != stage)
        return;
    cudaEventRecord(device->events[device->open_event].end, device->stream);
    device->open_event = SIZE_MAX;
}

void cuda_stage_times(struct kva_device *device, double milliseconds[KVA_N_STAGES], uint64_t calls[KVA_N_STAGES])
{
    for (int s = 0; s < KVA_N_STAGES; s++) {
        milliseconds[s] = 0.0;
        calls[s] = 0;
    }
    cudaStreamSynchronize(device->stream);
    for (size_t i = 0; i < device->n_events; i++) {
        const struct stage_events *e = &device->events[i];
        float elapsed = 0.0f;
        if (i == device->open_event || cudaEventElapsedTime(&elapsed, e->begin, e->end) != cudaSuccess)
            continue;
        milliseconds[e->stage] += (double)elapsed;
        calls[e->stage]++;
    }
    cudaGetLastError();
}

void cuda_stage_reset(struct kva_device *device)
{
    device->n_events = 0;
    device->open_event = SIZE_MAX;
}

void release_stages(struct kva_device *device)
{
    for (size_t i = 0; i < device->allocated_events; i++) {
        cudaEventDestroy(device->events[i].begin);
        cudaEventDestroy(device->events[i].end);
    }
    free(device->events);
    device->events = NULL;
    device->n_events = device->allocated_events = 0;
}
