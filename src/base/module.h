// Modules: shared objects that are loaded when they are needed, so that nothing else pays for what they link with.
#ifndef KVA_BASE_MODULE_H
#define KVA_BASE_MODULE_H

#include "kvatlas.h"

// Loads kvatlas-NAME.so and looks up one symbol of it. It is searched in KVATLAS_MODULES when that is set; else beside
// the program, in an installation, and in `folder` of the build tree ("kernels/cpu"). The module stays loaded: a CUDA
// runtime or a BLAS library that is unloaded and loaded again loses its threads. option: the flag that asked for it;
// why: appended when it is not found, " (it is built where nvcc is)".
enum kva_status kva_module_open(const char *name, const char *folder, const char *symbol, const char *option,
                                const char *why, void **found, char *path, size_t size, struct kva_error *error);

#endif
