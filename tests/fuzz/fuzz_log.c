// An engine's log from bytes, held against a plan. The first byte chooses a model and whether an engine is named.
#define _GNU_SOURCE  // memfd_create
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kvatlas.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static struct kva_atlas *atlas;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    // most inputs end after the log is read: plans are what takes time
    static const char *const MODELS[16] = {"Qwen/Qwen3-0.6B", "google/gemma-3-1b-it", "Qwen/Qwen3.5-27B"};
    static const char *const ENGINES[] = {NULL, "vllm", "sglang@0.5.9", "llama.cpp@b8390"};
    if (length == 0)
        return 0;
    if (atlas == NULL && kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        abort();
    char path[64];
    const int file = memfd_create("log", 0);
    if (file < 0 || write(file, bytes + 1, length - 1) != (ssize_t)(length - 1))
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const struct kva_deployment deployment = {.engine = ENGINES[bytes[0] / 16 % 4]};
    const struct kva_check_options options = {.log = path, .model = MODELS[bytes[0] % 16], .deployment = &deployment};
    struct kva_check_result result;
    struct kva_error error = {0};
    const enum kva_status status = kva_check_log(atlas, &options, &result, &error);
    if (status != KVA_OK && (error.status != status || error.text[0] == '\0'))
        abort();
    for (size_t n = 0; n < result.n_numbers; n++)
        if (result.numbers[n].printed == NULL || result.numbers[n].text == NULL)
            abort();
    kva_check_result_free(&result);
    close(file);
    return 0;
}
