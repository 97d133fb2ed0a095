#include "model/hub.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

enum { PATH_LIMIT = 4096, REF_LIMIT = 4096, MAX_NAMED = 4 };

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '.';
}

// Letters, digits and _ - . in components that do not start with a dot.
static bool is_clean(const char *text, size_t length)
{
    char before = '/';
    for (size_t i = 0; i < length; before = text[i++])
        if ((!is_name(text[i]) && text[i] != '/') || (before == '/' && (text[i] == '.' || text[i] == '/')))
            return false;
    return before != '/';
}

bool kva_hub_parse(const char *name, struct kva_hub_id *id)
{
    const size_t length = strcspn(name, "@");
    const char *slash = memchr(name, '/', length);
    id->has_revision = name[length] == '@';
    const char *revision = id->has_revision ? name + length + 1 : "main";
    if (length == 0 || length >= sizeof id->repository || strlen(revision) >= sizeof id->revision ||
        !is_clean(name, length) || !is_clean(revision, strlen(revision)) ||
        (slash != NULL && memchr(slash + 1, '/', length - (size_t)(slash + 1 - name)) != NULL))
        return false;
    memcpy(id->repository, name, length);
    id->repository[length] = '\0';
    snprintf(id->revision, sizeof id->revision, "%s", revision);
    return true;
}

// VARIABLE/below, with ~ at its start as the shell reads it. False: not set, or too long.
static bool from_environment(const char *variable, const char *below, char *path, size_t size)
{
    const char *value = getenv(variable), *home = getenv("HOME");
    if (value == NULL || *value == '\0')
        return false;
    const bool tilde = value[0] == '~' && (value[1] == '/' || value[1] == '\0') && home != NULL;
    const int length = snprintf(path, size, "%s%s%s", tilde ? home : "", tilde ? value + 1 : value, below);
    return length > 0 && (size_t)length < size;
}

bool kva_hub_cache(char *path, size_t size)
{
    return from_environment("HF_HUB_CACHE", "", path, size) ||
           from_environment("HUGGINGFACE_HUB_CACHE", "", path, size) ||
           from_environment("HF_HOME", "/hub", path, size) ||
           from_environment("XDG_CACHE_HOME", "/huggingface/hub", path, size) ||
           from_environment("HOME", "/.cache/huggingface/hub", path, size);
}

bool kva_hub_folder(const struct kva_hub_id *id, char *path, size_t size)
{
    char cache[PATH_LIMIT];
    if (!kva_hub_cache(cache, sizeof cache))
        return false;
    const char *slash = strchr(id->repository, '/');
    const int first = slash != NULL ? (int)(slash - id->repository) : (int)strlen(id->repository);
    const int length = snprintf(path, size, "%s/models--%.*s%s%s", cache, first, id->repository,
                                slash != NULL ? "--" : "", slash != NULL ? slash + 1 : "");
    return length > 0 && (size_t)length < size;
}

// "main, refs/pr/1": what a folder holds, a few of it.
static void list_names(const char *folder, const char *below, struct kva_text *names)
{
    char path[PATH_LIMIT];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, below);
    DIR *directory = length > 0 && (size_t)length < sizeof path ? opendir(path) : NULL;
    if (directory == NULL)
        return;
    int n = 0;
    for (struct dirent *entry; n <= MAX_NAMED && (entry = readdir(directory)) != NULL;)
        if (entry->d_name[0] != '.' && n++ < MAX_NAMED)
            kva_text_printf(names, "%s%.64s", names->length > 0 ? ", " : "", entry->d_name);
    if (n > MAX_NAMED)
        kva_text_printf(names, ", ...");
    closedir(directory);
}

static enum kva_status fail_revision(const struct kva_hub_id *id, const char *folder, struct kva_error *error)
{
    struct kva_text names = {0};
    list_names(folder, "refs", &names);
    list_names(folder, "snapshots", &names);
    const enum kva_status status = kva_fail(error, KVA_BAD_INPUT, folder, id->has_revision ? id->revision : NULL,
                                            "has neither refs/%s nor snapshots/%s; revisions there: %s", id->revision,
                                            id->revision, names.failed || names.length == 0 ? "none" : names.bytes);
    kva_text_free(&names);
    return status;
}

// The commit that refs/REVISION holds.
static enum kva_status read_ref(const char *path, char *commit, size_t size, struct kva_error *error)
{
    char *bytes;
    size_t length;
    const enum kva_status status = kva_file_read(path, REF_LIMIT, &bytes, &length, error);
    if (status != KVA_OK)
        return status;
    while (length > 0 && (bytes[length - 1] == '\n' || bytes[length - 1] == '\r' || bytes[length - 1] == ' '))
        length--;
    const bool good = length > 0 && length < size && is_clean(bytes, length) && memchr(bytes, '/', length) == NULL;
    if (good) {
        memcpy(commit, bytes, length);
        commit[length] = '\0';
    }
    free(bytes);
    return good ? KVA_OK : kva_fail(error, KVA_BAD_INPUT, path, NULL, "does not hold the name of a commit");
}

enum kva_status kva_hub_snapshot(const struct kva_hub_id *id, char *path, size_t size, bool *found,
                                 struct kva_error *error)
{
    char folder[PATH_LIMIT], ref[PATH_LIMIT + 256], commit[256];
    *found = false;
    if (!kva_hub_folder(id, folder, sizeof folder) || !kva_is_directory(folder))
        return KVA_OK;
    snprintf(ref, sizeof ref, "%s/refs/%s", folder, id->revision);
    const bool is_ref = kva_is_file(ref);
    if (is_ref) {
        const enum kva_status status = read_ref(ref, commit, sizeof commit, error);
        if (status != KVA_OK)
            return status;
    } else if (strchr(id->revision, '/') == NULL)
        snprintf(commit, sizeof commit, "%s", id->revision);
    else
        return fail_revision(id, folder, error);
    const int length = snprintf(path, size, "%s/snapshots/%s", folder, commit);
    if (length < 0 || (size_t)length >= size)
        return kva_fail(error, KVA_BAD_INPUT, NULL, id->repository, "its path in the cache is too long");
    if (!kva_is_directory(path))
        return is_ref ? kva_fail(error, KVA_BAD_INPUT, ref, NULL, "is at %s, but snapshots/%s is not there", commit,
                                 commit)
                      : fail_revision(id, folder, error);
    *found = true;
    return KVA_OK;
}
