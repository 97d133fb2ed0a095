// The files of data/, embedded when the library was built.
#ifndef KVA_BASE_DATA_H
#define KVA_BASE_DATA_H

#include <stddef.h>

struct kva_data_file {
    const char *path;  // below data/: "architectures/llama.yaml"
    const char *bytes;
    size_t length;
};

// Written by tools/embed.py, sorted by path.
extern const struct kva_data_file kva_data_files[];
extern const size_t kva_n_data_files;

const struct kva_data_file *kva_data_find(const char *path);  // NULL: no such file

#endif
