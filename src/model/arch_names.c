// Which architecture file a class name belongs to. The names are gathered once from the text of every file, without
// parsing it: a config of remote code should not cost the parsing of all architectures.
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "model/atlas.h"

struct name {
    const char *class_name, *model_type;
};

struct kva_arch_names {
    struct kva_arena *arena;
    struct name *names;
    size_t n, capacity;
};

struct gathering {
    struct kva_atlas *atlas;
    struct kva_arch_names *names;
    enum kva_status status;
    struct kva_error *error;
};

static bool is_word(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool add(struct kva_arch_names *names, const char *word, size_t length, const char *model_type)
{
    if (names->n == names->capacity) {
        const size_t capacity = names->capacity == 0 ? 512 : 2 * names->capacity;
        struct name *grown = realloc(names->names, capacity * sizeof *grown);
        if (grown == NULL)
            return false;
        names->names = grown;
        names->capacity = capacity;
    }
    const char *class_name = kva_arena_strndup(names->arena, word, length);
    names->names[names->n++] = (struct name){class_name, model_type};
    return class_name != NULL;
}

// The words of the section `architectures:`, in brackets or one a line.
static bool gather(struct kva_arch_names *names, const char *text, const char *model_type)
{
    static const char SECTION[] = "architectures:";
    const char *at = text;
    while (strncmp(at, SECTION, sizeof SECTION - 1) != 0) {
        at = strchr(at, '\n');
        if (at++ == NULL)
            return true;
    }
    for (at += sizeof SECTION - 1; *at != '\0';) {
        size_t length = 0;
        if (at[0] == '\n' && (is_word(at[1]) || at[1] == '#'))
            return true;  // the next section
        if (at[0] == '#')
            length = strcspn(at, "\n");
        else {
            while (is_word(at[length]))
                length++;
            if (length > 0 && !add(names, at, length, model_type))
                return false;
        }
        at += length > 0 ? length : 1;
    }
    return true;
}

static bool visit(void *user, const char *path)
{
    struct gathering *gathering = user;
    struct kva_atlas_file file;
    bool found;
    const char *base = strrchr(path, '/') + 1, *end = strstr(base, ".yaml");
    if (end == NULL || end[strlen(".yaml")] != '\0')
        return true;
    gathering->status = kva_atlas_read(gathering->atlas, path, &file, &found, gathering->error);
    if (gathering->status != KVA_OK || !found)
        return gathering->status == KVA_OK;
    const char *model_type = kva_arena_strndup(gathering->names->arena, base, (size_t)(end - base));
    if (model_type == NULL || !gather(gathering->names, file.bytes, model_type))
        gathering->status = kva_fail_memory(gathering->error, file.length);
    kva_atlas_file_free(&file);
    return gathering->status == KVA_OK;
}

static int compare(const void *a, const void *b)
{
    const struct name *first = a, *second = b;
    const int order = strcmp(first->class_name, second->class_name);
    return order != 0 ? order : strcmp(first->model_type, second->model_type);
}

void kva_arch_names_free(struct kva_arch_names *names)
{
    if (names == NULL)
        return;
    kva_arena_free(names->arena);
    free(names->names);
    free(names);
}

enum kva_status kva_arch_names_open(struct kva_atlas *atlas, struct kva_arch_names **names, struct kva_error *error)
{
    struct kva_arch_names *made = calloc(1, sizeof *made);
    if (made != NULL)
        made->arena = kva_arena_new();
    if (made == NULL || made->arena == NULL) {
        free(made);
        return kva_fail_memory(error, sizeof *made);
    }
    struct gathering gathering = {.atlas = atlas, .names = made, .error = error};
    kva_atlas_list(atlas, "architectures", visit, &gathering);
    if (gathering.status != KVA_OK) {
        kva_arch_names_free(made);
        return gathering.status;
    }
    if (made->n > 0)
        qsort(made->names, made->n, sizeof *made->names, compare);
    *names = made;
    return KVA_OK;
}

const char *kva_arch_names_find(const struct kva_arch_names *names, const char *class_name)
{
    size_t low = 0, high = names->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(names->names[middle].class_name, class_name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < names->n && strcmp(names->names[low].class_name, class_name) == 0 ? names->names[low].model_type
                                                                                   : NULL;
}
