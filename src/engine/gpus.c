// data/gpus.yaml: the catalogue of accelerators. A plan asks for one of them, and a cold start has no time to parse the
// others: the line that names it is found as text and parsed by itself.
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/gpus_schema.h"
#include "kvatlas.h"
#include "model/atlas.h"

// What was parsed so far: lines of the file, or all of it.
struct part {
    struct part *next;
    struct kva_gpu_file *file;
    struct kva_gpu *gpus;  // [file->n_gpus]
    struct kva_arena *arena;
};

struct shelf {
    struct part *parts;
    struct part *whole;  // one of them; NULL: not read yet
};

static void free_part(struct part *part)
{
    kva_yaml_free(&kva_gpus_schema, part->file);
    kva_arena_free(part->arena);
    free(part);
}

static void release(void *kept)
{
    struct shelf *shelf = kept;
    for (struct part *part = shelf != NULL ? shelf->parts : NULL; part != NULL;) {
        struct part *next = part->next;
        free_part(part);
        part = next;
    }
    free(shelf);
}

// ---------------------------------------------------------------- names

// Letters and digits alone, in lower case, without the words that makers put before a name.
static void squeeze(const char *text, size_t length, char *out, size_t size)
{
    static const char *const NOISE[] = {"nvidia",   "geforce", "tesla", "amd",    "instinct", "radeon",
                                        "graphics", "apple",   "intel", "google", "quadro"};
    size_t n = 0;
    memset(out, 0, size);
    for (size_t i = 0; i < length && n + 1 < size; i++) {
        const char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
            out[n++] = c;
    }
    for (size_t w = 0; w < sizeof NOISE / sizeof *NOISE; w++) {
        const size_t word = strlen(NOISE[w]);
        if (strncmp(out, NOISE[w], word) == 0 && out[word] != '\0') {
            memmove(out, out + word, strlen(out + word) + 1);
            w = SIZE_MAX;  // another one may stand behind it: "NVIDIA GeForce RTX 4090"
        }
    }
}

enum { NAME = 96 };

static bool is_name(const char *squeezed, const char *text, size_t length)
{
    char other[NAME];
    squeeze(text, length, other, sizeof other);
    return strcmp(squeezed, other) == 0;
}

// "9.0"
static void read_compute(const char *text, struct kva_gpu *gpu)
{
    char *end;
    const unsigned long major = strtoul(text, &end, 10);
    const unsigned long minor = *end == '.' ? strtoul(end + 1, &end, 10) : ULONG_MAX;
    if (*end != '\0' || major > UINT_MAX || minor > UINT_MAX)
        return;
    gpu->compute_major = (unsigned)major;
    gpu->compute_minor = (unsigned)minor;
}

static bool is_called(const struct kva_gpu_row *row, const char *squeezed)
{
    bool found = is_name(squeezed, row->id, strlen(row->id)) || is_name(squeezed, row->name, strlen(row->name));
    for (unsigned n = 0; n < row->n_names; n++)
        found = found || is_name(squeezed, row->names[n], strlen(row->names[n]));
    return found;
}

// ---------------------------------------------------------------- parsing

static enum kva_status describe_references(struct kva_atlas *atlas, const char *file, const struct kva_gpu_row *row,
                                           struct part *part, struct kva_gpu *gpu, struct kva_error *error)
{
    gpu->references = kva_arena_alloc(part->arena, row->n_references, sizeof *gpu->references);
    if (gpu->references == NULL)
        return kva_fail_memory(error, row->n_references * sizeof *gpu->references);
    for (unsigned r = 0; r < row->n_references; r++) {
        const struct kva_reference *reference;
        enum kva_status status = kva_atlas_reference(atlas, row->references[r], &reference, error);
        if (status != KVA_OK)
            return status;
        if (reference == NULL)
            return kva_fail(error, KVA_BAD_INPUT, file, "references",
                            "'%s' is not the id of a reference in references.yaml", row->references[r]);
        const char *line = kva_arena_printf(part->arena, "%s: %s, %s", reference->id, reference->title, reference->url);
        if (line == NULL)
            return kva_fail_memory(error, 0);
        gpu->references[gpu->n_references++] = line;
    }
    return KVA_OK;
}

static enum kva_status check(const char *file, const struct kva_gpu_row *row, struct kva_error *error)
{
    static const char *const BASES[] = {"measured", "printed", "derived", "bound"};
    bool known = (row->total == NULL) == (row->total_bytes == 0);
    for (size_t b = 0; known && row->total != NULL && b <= sizeof BASES / sizeof *BASES; b++) {
        if (b == sizeof BASES / sizeof *BASES)
            known = false;
        else if (strcmp(row->total, BASES[b]) == 0)
            break;
    }
    if (!known)
        return kva_fail(error, KVA_BAD_INPUT, file, row->id,
                        "total_bytes and how it is known (total: measured, printed, derived or bound) go together");
    if (row->bandwidth_gbs < 0 || row->bf16_tflops < 0)
        return kva_fail(error, KVA_BAD_INPUT, file, row->id, "has a figure below 0");
    return KVA_OK;
}

static struct kva_gpu gpu_of(const struct kva_gpu_row *row)
{
    struct kva_gpu gpu = {.id = row->id,
                          .name = row->name,
                          .vendor = row->vendor,
                          .total_bytes = row->total_bytes,
                          .total_basis = row->total,
                          .reported_bytes = (uint64_t)row->reported_mib << 20,
                          .sold_bytes = row->sold_gb * 1e9,
                          .bytes_per_second = row->bandwidth_gbs * 1e9,
                          .bf16_flops = row->bf16_tflops * 1e12,
                          .compute = row->compute,
                          .fp8 = row->fp8 != NULL && *row->fp8,
                          .fp4 = row->fp4 != NULL && *row->fp4,
                          .fp8_known = row->fp8 != NULL,
                          .fp4_known = row->fp4 != NULL,
                          .unified = row->unified};
    if (row->compute != NULL)
        read_compute(row->compute, &gpu);
    return gpu;
}

// Parses a file, or a piece of one, onto the shelf.
static enum kva_status load(struct kva_atlas *atlas, struct shelf *shelf, const struct kva_atlas_file *source,
                            struct part **loaded, struct kva_error *error)
{
    struct part *part = calloc(1, sizeof *part);
    if (part == NULL || (part->arena = kva_arena_new()) == NULL) {
        free(part);
        return kva_fail_memory(error, sizeof *part);
    }
    enum kva_status status = kva_yaml_load(source, &kva_gpus_schema, (void **)&part->file, error);
    if (status == KVA_OK) {
        part->gpus = kva_arena_alloc(part->arena, part->file->n_gpus, sizeof *part->gpus);
        status = part->gpus != NULL ? KVA_OK : kva_fail_memory(error, part->file->n_gpus * sizeof *part->gpus);
    }
    for (unsigned i = 0; status == KVA_OK && i < part->file->n_gpus; i++) {
        const struct kva_gpu_row *row = &part->file->gpus[i];
        part->gpus[i] = gpu_of(row);
        status = check(source->name, row, error);
        if (status == KVA_OK)
            status = describe_references(atlas, source->name, row, part, &part->gpus[i], error);
    }
    if (status != KVA_OK) {
        free_part(part);
        return status;
    }
    part->next = shelf->parts;
    shelf->parts = part;
    *loaded = part;
    return KVA_OK;
}

static const struct kva_gpu *find_in(const struct part *part, const char *squeezed)
{
    for (unsigned i = 0; i < part->file->n_gpus; i++)
        if (is_called(&part->file->gpus[i], squeezed))
            return &part->gpus[i];
    return NULL;
}

// ---------------------------------------------------------------- one line

static const char LINE[] = "\n  - {id: ";

// Whether the line that starts at `id` (the value of its key `id`) says one of its names so. A name may be quoted.
static bool line_is_called(const char *id, const char *squeezed)
{
    static const char NAMES[] = ", names: [";
    size_t length = strcspn(id, ",}\n");
    if (is_name(squeezed, id, length))
        return true;
    const char *name = id + length;
    if (strncmp(name, NAMES, sizeof NAMES - 1) != 0)
        return false;
    for (name += sizeof NAMES - 1; *name != ']' && *name != '\n' && *name != '\0'; name += *name == ',') {
        length = strcspn(name, ",]\n");
        if (is_name(squeezed, name, length))
            return true;
        name += length;
    }
    return false;
}

// The line "  - {id: ID, names: [...], ...}" that is called so, by itself. *gpu stays NULL where no line is.
static enum kva_status find_line(struct kva_atlas *atlas, struct shelf *shelf, const struct kva_atlas_file *file,
                                 const char *squeezed, const struct kva_gpu **gpu, struct kva_error *error)
{
    for (const char *line = strstr(file->bytes, LINE); line != NULL; line = strstr(line + 1, LINE)) {
        if (!line_is_called(line + sizeof LINE - 1, squeezed))
            continue;
        struct kva_text text = {0};
        struct part *part;
        kva_text_printf(&text, "gpus:%.*s\n", (int)(1 + strcspn(line + 1, "\n")), line);
        enum kva_status status = text.failed ? kva_fail_memory(error, 0) : KVA_OK;
        const struct kva_atlas_file source = {.bytes = text.bytes, .length = text.length, .name = file->name};
        if (status == KVA_OK)
            status = load(atlas, shelf, &source, &part, error);
        kva_text_free(&text);
        *gpu = status == KVA_OK ? find_in(part, squeezed) : NULL;
        return status;
    }
    return KVA_OK;
}

// ---------------------------------------------------------------- the catalogue

static enum kva_status open_shelf(struct kva_atlas *atlas, struct shelf **shelf, struct kva_error *error)
{
    void **slot = kva_atlas_keep(atlas, "gpus", release);
    if (slot != NULL && *slot == NULL)
        *slot = calloc(1, sizeof **shelf);
    *shelf = slot != NULL ? *slot : NULL;
    return *shelf != NULL ? KVA_OK : kva_fail_memory(error, sizeof **shelf);
}

static enum kva_status read_file(struct kva_atlas *atlas, struct kva_atlas_file *file, struct kva_error *error)
{
    bool found;
    enum kva_status status = kva_atlas_read(atlas, "gpus.yaml", file, &found, error);
    if (status == KVA_OK && !found)
        status = kva_fail(error, KVA_BAD_INPUT, "gpus.yaml", NULL, "is missing from the data directory");
    return status;
}

static enum kva_status refuse(const struct part *whole, const char *name, struct kva_error *error)
{
    size_t n = 0, room = 0;
    for (unsigned i = 0; i < whole->file->n_gpus; i++)
        room += 1 + whole->file->gpus[i].n_names;
    const char **names = calloc(room + 1, sizeof *names);
    if (names == NULL)
        return kva_fail_memory(error, room * sizeof *names);
    for (unsigned i = 0; i < whole->file->n_gpus; i++) {
        names[n++] = whole->file->gpus[i].id;
        for (unsigned k = 0; k < whole->file->gpus[i].n_names; k++)
            names[n++] = whole->file->gpus[i].names[k];
    }
    char squeezed[NAME];
    squeeze(name, strlen(name), squeezed, sizeof squeezed);
    const char *nearest = kva_nearest(name, names, n);
    if (nearest == NULL)
        nearest = kva_nearest(squeezed, names, n);
    enum kva_status status =
        nearest != NULL
            ? kva_fail(error, KVA_REFUSED, NULL, "--gpu", "'%.80s' is not known; did you mean %s?", name, nearest)
            : kva_fail(error, KVA_REFUSED, NULL, "--gpu",
                       "'%.80s' is not known: kvatlas gpus lists what is; --gpu-memory BYTES needs no name", name);
    free(names);
    return status;
}

enum kva_status kva_gpu_find(struct kva_atlas *atlas, const char *name, const struct kva_gpu **gpu,
                             struct kva_error *error)
{
    struct shelf *shelf;
    struct kva_atlas_file file = {0};
    char squeezed[NAME];
    *gpu = NULL;
    enum kva_status status = open_shelf(atlas, &shelf, error);
    if (status != KVA_OK)
        return status;
    squeeze(name, strlen(name), squeezed, sizeof squeezed);
    for (const struct part *part = shelf->parts; part != NULL && *gpu == NULL; part = part->next)
        *gpu = find_in(part, squeezed);
    if (*gpu != NULL)
        return KVA_OK;
    if (shelf->whole != NULL)
        return refuse(shelf->whole, name, error);
    status = read_file(atlas, &file, error);
    if (status == KVA_OK)
        status = find_line(atlas, shelf, &file, squeezed, gpu, error);
    if (status == KVA_OK && *gpu == NULL) {  // written in another way, by its long name, or not there
        status = load(atlas, shelf, &file, &shelf->whole, error);
        *gpu = status == KVA_OK ? find_in(shelf->whole, squeezed) : NULL;
        if (status == KVA_OK && *gpu == NULL)
            status = refuse(shelf->whole, name, error);
    }
    kva_atlas_file_free(&file);
    return status;
}

static bool holds(const char *text, const char *squeezed)
{
    char other[NAME];
    squeeze(text, strlen(text), other, sizeof other);
    return strstr(other, squeezed) != NULL;
}

static bool matches(const struct kva_gpu_row *row, const char *query)
{
    char squeezed[NAME];
    if (query == NULL)
        return true;
    squeeze(query, strlen(query), squeezed, sizeof squeezed);
    bool found = holds(row->id, squeezed) || holds(row->name, squeezed) || strcmp(row->vendor, squeezed) == 0;
    for (unsigned n = 0; n < row->n_names; n++)
        found = found || holds(row->names[n], squeezed);
    return found;
}

enum kva_status kva_gpus_open(struct kva_atlas *atlas, const char *query, const struct kva_gpu ***gpus, size_t *n,
                              struct kva_error *error)
{
    struct shelf *shelf;
    struct kva_atlas_file file = {0};
    *gpus = NULL;
    *n = 0;
    enum kva_status status = open_shelf(atlas, &shelf, error);
    if (status == KVA_OK && shelf->whole == NULL) {
        status = read_file(atlas, &file, error);
        if (status == KVA_OK)
            status = load(atlas, shelf, &file, &shelf->whole, error);
        kva_atlas_file_free(&file);
    }
    if (status != KVA_OK)
        return status;
    const struct part *whole = shelf->whole;
    *gpus = calloc(whole->file->n_gpus, sizeof **gpus);
    if (*gpus == NULL)
        return kva_fail_memory(error, whole->file->n_gpus * sizeof **gpus);
    for (unsigned i = 0; i < whole->file->n_gpus; i++)
        if (matches(&whole->file->gpus[i], query))
            (*gpus)[(*n)++] = &whole->gpus[i];
    return KVA_OK;
}
