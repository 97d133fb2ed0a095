// The ledger: every device allocation of a run, with what was asked and what the driver's account says was given.
#ifndef KVA_EXEC_LEDGER_H
#define KVA_EXEC_LEDGER_H

#include "kernels/kernels.h"

struct kva_ledger {
    const struct kva_kernels *kernels;
    struct kva_device *device;
    uint64_t predicted;  // what the plan expects in all, for the out-of-memory message; 0: no plan
    struct kva_allocation *entries;
    void **memory;  // [n], of each entry
    size_t n, capacity;
};

// The memory is cleared. On failure the error says which allocation, what was asked, predicted and free.
enum kva_status kva_ledger_alloc(struct kva_ledger *ledger, int32_t layer, enum kva_purpose purpose, uint64_t bytes,
                                 void **memory, struct kva_error *error);
void kva_ledger_release(struct kva_ledger *ledger);  // frees everything, newest first

#endif
