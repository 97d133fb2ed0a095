// A suite file: libyaml, the schema, and the multiplication of its lists.
#include "fuzz.h"
#include "kvatlas.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char path[64];
    struct kva_suite suite;
    const int file = fuzz_file(bytes, size, path);
    if (kva_suite_read(path, size % 2 == 0, &suite, NULL) == KVA_OK)
        kva_suite_free(&suite);
    close(file);
    return 0;
}
