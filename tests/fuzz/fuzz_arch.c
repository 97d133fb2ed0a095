// An architecture file: libyaml, the schema, formulas compiled, names checked; and a config read by it.
#include "fuzz.h"

#include <string.h>
#include <sys/stat.h>

#include "kvatlas.h"

static char folder[] = "/tmp/kvatlas-fuzz-XXXXXX";
static char arch_path[128], config_path[128];

static void write_file(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(bytes, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static void prepare(void)
{
    static const char REFERENCES[] = "references:\n  - {id: a, title: b, url: c, read: 2026-11-30}\n";
    static const char CONFIG[] = "{\"model_type\": \"fuzz\", \"num_hidden_layers\": 6, \"hidden_size\": 64}";
    char path[128];
    if (mkdtemp(folder) == NULL)
        abort();
    snprintf(path, sizeof path, "%s/references.yaml", folder);
    write_file(path, REFERENCES, sizeof REFERENCES - 1);
    snprintf(path, sizeof path, "%s/architectures", folder);
    if (mkdir(path, 0700) != 0)
        abort();
    snprintf(arch_path, sizeof arch_path, "%s/architectures/fuzz.yaml", folder);
    snprintf(config_path, sizeof config_path, "%s/config.json", folder);
    write_file(config_path, CONFIG, sizeof CONFIG - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct kva_atlas *atlas;
    struct kva_model *model;
    if (arch_path[0] == '\0')
        prepare();
    write_file(arch_path, bytes, size);
    if (kva_atlas_open(folder, &atlas, NULL) != KVA_OK)
        abort();
    if (kva_model_open(atlas, config_path, NULL, &model, NULL) == KVA_OK)
        kva_model_close(model);
    kva_atlas_close(atlas);
    return 0;
}
