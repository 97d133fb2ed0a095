// A safetensors file: whatever is accepted must have every tensor inside the file.
#include "fuzz.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    struct kva_safetensors *checkpoint;
    volatile unsigned char sum = 0;
    const int file = fuzz_file(bytes, size, path);
    if (kva_safetensors_open(path, false, &checkpoint, NULL) == KVA_OK) {
        for (size_t i = 0; i < kva_safetensors_count(checkpoint); i++) {
            const struct kva_st_tensor *tensor = kva_safetensors_at(checkpoint, i);
            if (tensor->bytes > size)
                abort();
            for (uint64_t b = 0; b < tensor->bytes; b++)
                sum = (unsigned char)(sum + tensor->data[b]);
        }
        kva_safetensors_close(checkpoint);
    }
    close(file);
    return 0;
}
