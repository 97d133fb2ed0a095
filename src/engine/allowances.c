#include "engine/allowances.h"

#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/facts.h"
#include "model/atlas.h"
#include "model/schema_words.h"
#include "model/yaml.h"

struct row {
    char *engine, *since, *basis, *about;
    uint64_t activation, logits, sequences, sequences_large, large_bytes, graphs, other, other_ranks;
    char **references;
    unsigned n_references;
};

struct file {
    struct row *rows;
    unsigned n_rows;
};

#define BYTES(key, member) CYAML_FIELD_UINT(key, CYAML_FLAG_OPTIONAL, struct row, member)
static const cyaml_schema_field_t ROW_FIELDS[] = {
    TEXT("engine", struct row, engine),
    TEXT_OPTIONAL("since", struct row, since),
    BYTES("activation", activation),
    BYTES("logits", logits),
    BYTES("sequences", sequences),
    BYTES("sequences_large", sequences_large),
    BYTES("large_bytes", large_bytes),
    BYTES("graphs", graphs),
    BYTES("other", other),
    BYTES("other_ranks", other_ranks),
    TEXT("basis", struct row, basis),
    TEXT("about", struct row, about),
    NAMES("references", CYAML_FLAG_DEFAULT, struct row, references, n_references, 1),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t ROW = MAPPING(struct row, ROW_FIELDS);
static const cyaml_schema_field_t FILE_FIELDS[] = {
    LIST("allowances", struct file, rows, n_rows, &ROW),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t SCHEMA = DOCUMENT(struct file, FILE_FIELDS);

static void release(void *kept)
{
    kva_yaml_free(&SCHEMA, kept);
}

static enum kva_status check(struct kva_atlas *atlas, const char *name, const struct file *file,
                             struct kva_error *error)
{
    static const char *const BASES[] = {"measured", "borrowed", "guess"};
    for (unsigned i = 0; i < file->n_rows; i++) {
        const char *missing;
        bool known = false;
        for (size_t b = 0; b < sizeof BASES / sizeof *BASES; b++)
            known = known || strcmp(file->rows[i].basis, BASES[b]) == 0;
        if (!known)
            return kva_fail(error, KVA_BAD_INPUT, name, "basis", "'%s' is not measured, borrowed or guess",
                            file->rows[i].basis);
        enum kva_status status =
            kva_atlas_missing_reference(atlas, file->rows[i].references, file->rows[i].n_references, &missing, error);
        if (status == KVA_OK && missing != NULL)
            status = kva_fail(error, KVA_BAD_INPUT, name, "references",
                              "'%s' is not the id of a reference in references.yaml", missing);
        if (status != KVA_OK)
            return status;
    }
    return KVA_OK;
}

static enum kva_status open_file(struct kva_atlas *atlas, const struct file **opened, struct kva_error *error)
{
    struct kva_atlas_file source = {0};
    bool found;
    void **slot = kva_atlas_keep(atlas, "allowances", release);
    *opened = slot != NULL ? *slot : NULL;
    if (slot == NULL)
        return kva_fail_memory(error, sizeof **opened);
    if (*slot != NULL)
        return KVA_OK;
    enum kva_status status = kva_atlas_read(atlas, "allowances.yaml", &source, &found, error);
    if (status == KVA_OK && !found)
        status = kva_fail(error, KVA_BAD_INPUT, "allowances.yaml", NULL, "is missing from the data directory");
    void *loaded = NULL;
    if (status == KVA_OK)
        status = kva_yaml_load(&source, &SCHEMA, &loaded, error);
    if (status == KVA_OK)
        status = check(atlas, source.name, loaded, error);
    if (status == KVA_OK)
        *opened = *slot = loaded;
    else
        kva_yaml_free(&SCHEMA, loaded);
    kva_atlas_file_free(&source);
    return status;
}

static bool holds(const struct kva_call *call, const struct row *row)
{
    bool comparable;
    if (strcmp(row->engine, call->engine->id) != 0)
        return false;
    return row->since == NULL || kva_version_compare(call->version->version, row->since, &comparable) >= 0;
}

// The larger of the least and the logits of all sequences that the engine expects.
static uint64_t activation(const struct kva_call *call, const struct row *row)
{
    const struct kva_deployment *deployment = call->deployment;
    const struct kva_value *vocab = kva_model_value(call->model, "vocab");
    const bool large = row->large_bytes > 0 && deployment->gpu_bytes >= row->large_bytes;
    const uint64_t expected = large ? row->sequences_large : row->sequences;
    uint64_t bytes;
    if (vocab == NULL || vocab->type != KVA_COUNT ||
        !kva_mul3(deployment->max_sequences > 0 ? deployment->max_sequences : expected, vocab->count, row->logits,
                  &bytes))
        return row->activation;
    return kva_max(row->activation, bytes);
}

// `allowed` where *field is not said.
static enum kva_status fill(struct kva_call *call, uint64_t *field, uint64_t allowed, const char *what,
                            const char *flag, const struct row *row)
{
    char human[KVA_HUMAN];
    if (*field > 0 || allowed == 0)
        return KVA_OK;
    *field = allowed;
    const char *basis = strcmp(row->basis, "measured") == 0 ? "" : row->basis;
    return kva_assume(call, "%s %s: an allowance%s%s (%s); %s overrides", what, kva_human_bytes(allowed, human),
                      *basis != '\0' ? ", " : "", basis, row->about, flag);
}

enum kva_status kva_allowances_fill(struct kva_call *call)
{
    struct kva_deployment *deployment = call->deployment;
    const struct file *file = NULL;
    const struct row *row = NULL;
    if (call->atlas == NULL)
        return KVA_OK;
    enum kva_status status = open_file(call->atlas, &file, call->error);
    for (unsigned i = 0; status == KVA_OK && i < file->n_rows; i++)
        if (holds(call, &file->rows[i]))
            row = &file->rows[i];
    if (row == NULL)
        return status;
    const bool ranks = row->other_ranks > 0 && deployment->tp * deployment->pp > 1;
    status = fill(call, &deployment->activation_bytes, activation(call, row), "activations", "--activation-bytes", row);
    if (status == KVA_OK)
        status = fill(call, &deployment->graph_bytes, row->graphs, "CUDA graphs", "--graph-bytes", row);
    if (status == KVA_OK)
        status = fill(call, &deployment->other_bytes, ranks ? row->other_ranks : row->other, "other memory",
                      "--other-bytes", row);
    return status;
}
