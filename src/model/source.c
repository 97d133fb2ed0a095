#include "model/source.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "model/fetch.h"
#include "model/hub.h"

static const char CONFIG[] = "config.json";

// What a symbolic link points to, when that is not there. False: it is no link, or leads somewhere.
static bool is_dangling(const char *path, char *target, size_t size)
{
    struct stat status;
    if (lstat(path, &status) != 0 || !S_ISLNK(status.st_mode) || stat(path, &status) == 0)
        return false;
    const ssize_t length = readlink(path, target, size - 1);
    target[length > 0 ? length : 0] = '\0';
    return true;
}

static enum kva_status fail_dangling(const char *path, const char *target, struct kva_error *error)
{
    return kva_fail(error, KVA_BAD_INPUT, path, NULL, "is a symbolic link to %.200s, which is not there", target);
}

// ---------------------------------------------------------------- a directory

struct gguf_files {
    size_t n;        // files, a split model counting once
    char name[256];  // of the first
};

// NAME.gguf, and of a split model only NAME-00001-of-0000N.gguf.
static void count_gguf(const char *directory, struct gguf_files *files)
{
    DIR *handle = opendir(directory);
    for (struct dirent *entry; handle != NULL && (entry = readdir(handle)) != NULL;) {
        const size_t length = strlen(entry->d_name);
        if (length < 6 || strcasecmp(entry->d_name + length - 5, ".gguf") != 0)
            continue;
        const char *part = strstr(entry->d_name, "-of-");
        if (part != NULL && part - entry->d_name >= 5 && strncmp(part - 5, "00001", 5) != 0)
            continue;
        if (files->n++ == 0)
            snprintf(files->name, sizeof files->name, "%s", entry->d_name);
    }
    if (handle != NULL)
        closedir(handle);
}

static enum kva_status set_path(struct kva_origin *origin, const char *directory, const char *name,
                                struct kva_error *error)
{
    const char *slash = directory[strlen(directory) - 1] == '/' ? "" : "/";
    const int length = snprintf(origin->path, sizeof origin->path, "%s%s%s", directory, slash, name);
    return length > 0 && (size_t)length < sizeof origin->path
               ? KVA_OK
               : kva_fail(error, KVA_BAD_INPUT, NULL, "MODEL", "is too long for a path");
}

static enum kva_status find_in_directory(const char *directory, struct kva_origin *origin, struct kva_error *error)
{
    char target[256];
    struct gguf_files gguf = {0};
    origin->directory = directory;
    enum kva_status status = set_path(origin, directory, CONFIG, error);
    if (status != KVA_OK || kva_is_file(origin->path))
        return status;
    if (is_dangling(origin->path, target, sizeof target))
        return fail_dangling(origin->path, target, error);
    count_gguf(directory, &gguf);
    if (gguf.n == 1)
        return set_path(origin, directory, gguf.name, error);
    if (gguf.n > 1)
        return kva_fail(error, KVA_BAD_INPUT, directory, NULL,
                        "is a directory without a config.json and with %zu GGUF files: name one of them", gguf.n);
    return kva_fail(error, KVA_BAD_INPUT, directory, NULL, "is a directory without a config.json");
}

// ---------------------------------------------------------------- standard input

static enum kva_status read_standard_input(struct kva_origin *origin, struct kva_error *error)
{
    size_t capacity = 1 << 16;
    snprintf(origin->path, sizeof origin->path, "standard input");
    origin->owned = malloc(capacity);
    while (origin->owned != NULL) {
        const size_t got = fread(origin->owned + origin->length, 1, capacity - origin->length, stdin);
        origin->length += got;
        if (got == 0)
            break;
        if (origin->length > KVA_CONFIG_LIMIT)
            return kva_fail(error, KVA_BAD_INPUT, origin->path, NULL,
                            "is longer than the %d bytes a config may have; one config a line is read with plan "
                            "- --ndjson",
                            KVA_CONFIG_LIMIT);
        if (origin->length < capacity)
            continue;
        char *grown = realloc(origin->owned, capacity * 2);
        if (grown == NULL)
            return kva_fail_memory(error, capacity * 2);
        origin->owned = grown;
        capacity *= 2;
    }
    if (origin->owned == NULL)
        return kva_fail_memory(error, capacity);
    if (ferror(stdin))
        return kva_fail(error, KVA_MACHINE, origin->path, NULL, "cannot be read: %s", strerror(errno));
    if (origin->length == 0)
        return kva_fail(error, KVA_BAD_INPUT, origin->path, NULL, "is empty, a config was expected");
    if (origin->length >= 4 && memcmp(origin->owned, "GGUF", 4) == 0)
        return kva_fail(error, KVA_BAD_INPUT, origin->path, NULL,
                        "is a GGUF file; name the file, its header alone is then read");
    origin->bytes = origin->owned;
    return KVA_OK;
}

// ---------------------------------------------------------------- names

struct near {
    const char *name;
    char found[256];
};

static const char *after_slash(const char *id)
{
    const char *slash = strrchr(id, '/');
    return slash != NULL ? slash + 1 : id;
}

// Same letters but for case, whole or after the organisation.
static bool visit_near(void *user, const char *path)
{
    struct near *near = user;
    char id[256];
    const size_t length = strlen(path), tail = strlen("/config.json"), head = strlen("models/");
    if (length <= head + tail || strcmp(path + length - tail, "/config.json") != 0 || length - head - tail >= sizeof id)
        return true;
    memcpy(id, path + head, length - head - tail);
    id[length - head - tail] = '\0';
    if (strcasecmp(after_slash(id), after_slash(near->name)) != 0)
        return true;
    snprintf(near->found, sizeof near->found, "%s", id);
    return false;
}

static enum kva_status fail_not_found(struct kva_atlas *atlas, const char *name, const struct kva_hub_id *id,
                                      struct kva_error *error)
{
    char folder[KVA_ORIGIN_PATH], target[256];
    struct near near = {.name = name};
    if (is_dangling(name, target, sizeof target))
        return fail_dangling(name, target, error);
    kva_atlas_list(atlas, "models", visit_near, &near);
    const char *meant = near.found[0] != '\0' ? "; did you mean " : "", *end = near.found[0] != '\0' ? "?" : "";
    if (id == NULL)
        return kva_fail(error, KVA_BAD_INPUT, NULL, name,
                        "no file, no directory and no model of the catalogue is called so%s%s%s", meant, near.found,
                        end);
    const bool cached = kva_hub_folder(id, folder, sizeof folder);
    return kva_fail(error, KVA_BAD_INPUT, NULL, name,
                    "no file, no directory%s is called so, and the Hugging Face cache has no %.220s (--fetch asks the "
                    "hub)%s%.100s%s",
                    id->has_revision ? "" : " and no model of the catalogue",
                    cached ? folder : "place: HOME is not set", meant, near.found, end);
}

static enum kva_status find_in_catalogue(struct kva_atlas *atlas, const char *name, struct kva_origin *origin,
                                         bool *found, struct kva_error *error)
{
    char below[KVA_ORIGIN_PATH + 32];
    snprintf(below, sizeof below, "models/%s/%s", name, CONFIG);
    const enum kva_status status = kva_atlas_read(atlas, below, &origin->file, found, error);
    if (status != KVA_OK || !*found)
        return status;
    snprintf(origin->path, sizeof origin->path, "%s", origin->file.name);
    origin->bytes = origin->file.bytes;
    origin->length = origin->file.length;
    return KVA_OK;
}

static enum kva_status find_by_name(struct kva_atlas *atlas, const char *name, bool fetch, struct kva_origin *origin,
                                    struct kva_error *error)
{
    struct kva_hub_id id;
    bool found = false;
    enum kva_status status = KVA_OK;
    const bool is_id = kva_hub_parse(name, &id);
    if (fetch && is_id)
        return kva_fetch_model(&id, origin, error);
    if (!is_id || !id.has_revision)
        status = find_in_catalogue(atlas, name, origin, &found, error);
    if (status != KVA_OK || found)
        return status;
    if (is_id)
        status = kva_hub_snapshot(&id, origin->folder, sizeof origin->folder, &found, error);
    if (status != KVA_OK)
        return status;
    return found ? find_in_directory(origin->folder, origin, error)
                 : fail_not_found(atlas, name, is_id ? &id : NULL, error);
}

enum kva_status kva_origin_find(struct kva_atlas *atlas, const char *name, bool fetch, struct kva_origin *origin,
                                struct kva_error *error)
{
    *origin = (struct kva_origin){0};
    const size_t length = strlen(name);
    if (length == 0)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "MODEL",
                        "is empty: a config.json, a directory or a catalogue name was expected");
    if (length >= sizeof origin->path - sizeof CONFIG)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "MODEL", "is too long for a path");
    if (strcmp(name, "-") == 0)
        return read_standard_input(origin, error);
    if (kva_is_directory(name))
        return find_in_directory(name, origin, error);
    if (!kva_is_file(name))
        return find_by_name(atlas, name, fetch, origin, error);
    memcpy(origin->path, name, length + 1);
    return KVA_OK;
}

void kva_origin_of_bytes(struct kva_origin *origin, const char *bytes, size_t length, const char *path)
{
    // not zeroed as a whole: a stream makes one for each line
    snprintf(origin->path, sizeof origin->path, "%s", path);
    origin->directory = NULL;
    origin->bytes = bytes;
    origin->length = length;
    origin->note[0] = '\0';
}

enum kva_status kva_origin_read(struct kva_origin *origin, struct kva_error *error)
{
    if (origin->bytes != NULL)
        return KVA_OK;
    const enum kva_status status =
        kva_file_read(origin->path, KVA_CONFIG_LIMIT, &origin->owned, &origin->length, error);
    origin->bytes = origin->owned;
    return status;
}

void kva_origin_free(struct kva_origin *origin)
{
    if (origin->temporary)
        kva_fetch_remove(origin->folder);
    free(origin->owned);
    kva_atlas_file_free(&origin->file);
    *origin = (struct kva_origin){0};
}
