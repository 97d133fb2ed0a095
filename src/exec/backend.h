// Which table of operations a run uses.
#ifndef KVA_EXEC_BACKEND_H
#define KVA_EXEC_BACKEND_H

#include "kernels/kernels.h"

// name: "cpu", "cuda", or NULL (cuda when its module loads and a device answers, else cpu). The modules, kvatlas-cpu.so
// and kvatlas-cuda.so, are opened only here (base/module.h). Errors: KVA_BAD_INPUT (unknown name), KVA_MACHINE (no
// module, no device).
enum kva_status kva_backend_open(const char *name, enum kva_dtype act, const struct kva_kernels **kernels,
                                 struct kva_device **device, struct kva_error *error);
void kva_backend_close(const struct kva_kernels *kernels, struct kva_device *device);

#endif
