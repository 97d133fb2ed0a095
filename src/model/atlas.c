#include "model/atlas.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/data.h"
#include "base/error.h"
#include "base/file.h"

enum { FILE_LIMIT = 16 << 20, PATH_LIMIT = 4096, FOLDER_DEPTH = 8 };

struct keepsake {
    struct keepsake *next;
    const char *name;
    void *kept;
    void (*release)(void *kept);
};

struct kva_atlas {
    char *directory;  // NULL: the embedded data
    struct keepsake *keepsakes;
    struct kva_arch_cache *architectures;
    struct kva_reference_shelf *references;
};

enum kva_status kva_atlas_open(const char *data_dir, struct kva_atlas **atlas, struct kva_error *error)
{
    *atlas = NULL;
    if (data_dir != NULL && !kva_is_directory(data_dir))
        return kva_fail(error, KVA_BAD_INPUT, data_dir, NULL, "is not a directory, kvatlas's data was expected in it");
    struct kva_atlas *opened = calloc(1, sizeof *opened);
    if (opened != NULL && data_dir != NULL) {
        opened->directory = strdup(data_dir);
        if (opened->directory == NULL) {
            free(opened);
            opened = NULL;
        }
    }
    if (opened == NULL)
        return kva_fail_memory(error, sizeof *opened);
    *atlas = opened;
    return KVA_OK;
}

void kva_atlas_close(struct kva_atlas *atlas)
{
    if (atlas == NULL)
        return;
    kva_arch_cache_free(atlas->architectures);
    kva_reference_shelf_free(atlas->references);
    for (struct keepsake *keepsake = atlas->keepsakes; keepsake != NULL;) {
        struct keepsake *next = keepsake->next;
        keepsake->release(keepsake->kept);
        free(keepsake);
        keepsake = next;
    }
    free(atlas->directory);
    free(atlas);
}

struct kva_arch_cache **kva_atlas_arch_cache(struct kva_atlas *atlas)
{
    return &atlas->architectures;
}

struct kva_reference_shelf **kva_atlas_reference_shelf(struct kva_atlas *atlas)
{
    return &atlas->references;
}

bool kva_atlas_is_built_in(const struct kva_atlas *atlas)
{
    return atlas->directory == NULL;
}

void **kva_atlas_keep(struct kva_atlas *atlas, const char *name, void (*release)(void *kept))
{
    for (struct keepsake *keepsake = atlas->keepsakes; keepsake != NULL; keepsake = keepsake->next)
        if (strcmp(keepsake->name, name) == 0)
            return &keepsake->kept;
    struct keepsake *keepsake = calloc(1, sizeof *keepsake);
    if (keepsake == NULL)
        return NULL;
    *keepsake = (struct keepsake){.next = atlas->keepsakes, .name = name, .release = release};
    atlas->keepsakes = keepsake;
    return &keepsake->kept;
}

// A path may come from a config (model_type) or from the command line: letters, digits and _ - . + only, and no
// component that starts with a dot.
static bool is_inside(const char *path)
{
    char before = '/';
    for (const char *c = path; *c != '\0'; before = *c++) {
        bool name = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                    strchr("_-+", *c) != NULL;
        if (!name && !((*c == '.' || *c == '/') && before != '/'))
            return false;
    }
    return before != '/' && strlen(path) < PATH_LIMIT;
}

enum kva_status kva_atlas_read(struct kva_atlas *atlas, const char *path, struct kva_atlas_file *file, bool *found,
                               struct kva_error *error)
{
    *file = (struct kva_atlas_file){0};
    *found = false;
    if (!is_inside(path))
        return KVA_OK;
    const char *directory = atlas->directory != NULL ? atlas->directory : "data";
    size_t size = strlen(directory) + 1 + strlen(path) + 1;
    file->name = malloc(size);
    if (file->name == NULL)
        return kva_fail_memory(error, size);
    snprintf(file->name, size, "%s/%s", directory, path);
    enum kva_status status = KVA_OK;
    if (atlas->directory == NULL) {
        const struct kva_data_file *embedded = kva_data_find(path);
        *found = embedded != NULL;
        if (*found) {
            file->bytes = embedded->bytes;
            file->length = embedded->length;
        }
    } else if (kva_is_file(file->name)) {
        status = kva_file_read(file->name, FILE_LIMIT, &file->owned, &file->length, error);
        file->bytes = file->owned;
        *found = status == KVA_OK;
    }
    if (!*found)
        kva_atlas_file_free(file);
    return status;
}

void kva_atlas_file_free(struct kva_atlas_file *file)
{
    free(file->name);
    free(file->owned);
    *file = (struct kva_atlas_file){0};
}

static bool list_folder(const char *directory, const char *folder, int depth, kva_atlas_visit visit, void *user)
{
    char path[PATH_LIMIT], whole[PATH_LIMIT];
    int length = snprintf(whole, sizeof whole, "%s/%s", directory, folder);
    DIR *handle = length < 0 || (size_t)length >= sizeof whole || depth > FOLDER_DEPTH ? NULL : opendir(whole);
    if (handle == NULL)
        return true;
    bool on = true;
    for (struct dirent *entry; on && (entry = readdir(handle)) != NULL;) {
        length = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.' || length < 0 || (size_t)length >= sizeof path)
            continue;
        length = snprintf(whole, sizeof whole, "%s/%s", directory, path);
        if (length < 0 || (size_t)length >= sizeof whole)
            continue;
        on = kva_is_directory(whole) ? list_folder(directory, path, depth + 1, visit, user) : visit(user, path);
    }
    closedir(handle);
    return on;
}

void kva_atlas_list(struct kva_atlas *atlas, const char *folder, kva_atlas_visit visit, void *user)
{
    if (atlas->directory != NULL) {
        list_folder(atlas->directory, folder, 0, visit, user);
        return;
    }
    size_t length = strlen(folder);
    for (size_t i = 0; i < kva_n_data_files; i++)
        if (strncmp(kva_data_files[i].path, folder, length) == 0 && kva_data_files[i].path[length] == '/' &&
            !visit(user, kva_data_files[i].path))
            return;
}
