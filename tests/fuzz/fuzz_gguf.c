// GGUF headers from bytes, the config that is made of them, and the model that is made of the config.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "model/gguf_arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static struct kva_atlas *atlas;

// One line that says what was wrong.
static void check_error(enum kva_status status, const struct kva_error *error)
{
    if (status != KVA_OK && (error->status != status || error->text[0] == '\0'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
    if (atlas == NULL && kva_atlas_open(NULL, &atlas, NULL) != KVA_OK)
        abort();
    struct kva_error error = {0};
    struct kva_gguf *gguf;
    // as a file that ends here, and as the start of one with a payload
    enum kva_status status = kva_gguf_parse(
        "input", bytes, length, length > 0 && bytes[length - 1] % 2 ? length : length + (1u << 20), &gguf, &error);
    check_error(status, &error);
    if (status != KVA_OK)
        return 0;
    json_t *config;
    status = kva_gguf_config(atlas, gguf, &config, &error);
    check_error(status, &error);
    char *text = status == KVA_OK ? json_dumps(config, 0) : NULL;
    if (text != NULL) {
        struct kva_model *model;
        status = kva_model_from_json(atlas, text, strlen(text), "input", NULL, &model, &error);
        check_error(status, &error);
        kva_model_close(model);
    }
    free(text);
    if (config != NULL)
        json_decref(config);
    kva_gguf_close(gguf);
    return 0;
}
