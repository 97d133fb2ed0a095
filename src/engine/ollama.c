// Ollama's own runner: llama.cpp's tensors with cells of its own, and one line a device.
#include "base/error.h"
#include "engine/llamacpp.h"

// format.HumanBytes2: one decimal, in units of 1024.
static double in_units(uint64_t bytes, const char **unit)
{
    static const char *const UNITS[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    size_t u = 0;
    while (size >= 1024 && u + 1 < sizeof UNITS / sizeof *UNITS) {
        size /= 1024;
        u++;
    }
    *unit = UNITS[u];
    return size;
}

static enum kva_status print_lines(struct kva_call *call, const struct kva_engine_allocation *allocation)
{
    const struct kva_lcpp_memory *memory = call->own;
    enum kva_status status = KVA_OK;
    (void)allocation;
    for (size_t d = 0; status == KVA_OK && d < memory->n_devices; d++) {
        uint64_t bytes = 0;
        const char *unit, *device = kva_lcpp_device_name(call, d);
        for (size_t c = 0; c < memory->n; c++)
            bytes += memory->caches[c].given[d];  // they fit: they were added up before
        const double size = in_units(bytes, &unit);
        const struct kva_quantity quantities[] = {kva_text_of("device", device), kva_real_of("size", size),
                                                  kva_text_of("unit", unit)};
        status = device != NULL ? kva_print(call, "device_cache", quantities, sizeof quantities / sizeof *quantities)
                                : kva_fail_memory(call->error, sizeof quantities);
    }
    return status;
}

const struct kva_engine kva_engine_ollama = {
    KVA_LCPP_FAMILY,
    .id = "ollama",
    .print_lines = print_lines,
};
