#include "base/data.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *key, const void *file)
{
    return strcmp(key, ((const struct kva_data_file *)file)->path);
}

const struct kva_data_file *kva_data_find(const char *path)
{
    return bsearch(path, kva_data_files, kva_n_data_files, sizeof *kva_data_files, compare);
}
