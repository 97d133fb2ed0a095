#define _GNU_SOURCE  // dladdr
#include "base/module.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

// Below the folder of the library that this code is in: a program elsewhere may be linked with an installed one.
static bool find_beside_library(const char *name, char *path, size_t size)
{
    Dl_info info;
    char library[PATH_MAX];
    if (dladdr((const void *)(uintptr_t)&kva_module_open, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, library) == NULL)
        return false;
    snprintf(path, size, "%s/kvatlas/kvatlas-%s.so", dirname(library), name);
    return kva_is_file(path);
}

// Writes the first place where the module is; false: nowhere.
static bool find(const char *name, const char *build_folder, char *path, size_t size)
{
    const char *named = getenv("KVATLAS_MODULES");
    if (named != NULL && named[0] != '\0') {
        snprintf(path, size, "%s/kvatlas-%s.so", named, name);
        return kva_is_file(path);
    }
    char program[PATH_MAX];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length > 0) {
        program[length] = '\0';
        const char *folder = dirname(program);
        static const struct {
            const char *folder;
            bool build_tree;
        } PLACES[] = {
            {"", false},                 // beside the program
            {"/../lib/kvatlas", false},  // an installation that was moved
            {"/../../", true},           // the build tree, from src/cli and from tests
            {"/../", true},
            {"/../../../", true},
        };
        for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
            snprintf(path, size, "%s%s%s/kvatlas-%s.so", folder, PLACES[i].folder,
                     PLACES[i].build_tree ? build_folder : "", name);
            if (kva_is_file(path))
                return true;
        }
    }
    if (find_beside_library(name, path, size))
        return true;
    snprintf(path, size, "%s/kvatlas-%s.so", KVA_MODULE_DIR, name);
    return kva_is_file(path);
}

enum kva_status kva_module_open(const char *name, const char *folder, const char *symbol, const char *option,
                                const char *why, void **found, char *path, size_t size, struct kva_error *error)
{
    if (!find(name, folder, path, size))
        return kva_fail(error, KVA_MACHINE, NULL, option,
                        "kvatlas-%s.so was not found beside the program or in %s%s; KVATLAS_MODULES may name its "
                        "folder",
                        name, KVA_MODULE_DIR, why);
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL)
        return kva_fail(error, KVA_MACHINE, path, NULL, "cannot be loaded: %s", dlerror());
    *found = dlsym(module, symbol);
    return *found != NULL ? KVA_OK : kva_fail(error, KVA_MACHINE, path, NULL, "is not a kvatlas module");
}
