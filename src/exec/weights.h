// The weights of a run, on the device, found by layer and role.
#ifndef KVA_EXEC_WEIGHTS_H
#define KVA_EXEC_WEIGHTS_H

#include "exec/ledger.h"
#include "model/arch.h"

struct kva_weight {
    void *data;  // device; NULL: the checkpoint has no such tensor
    enum kva_dtype dtype;
    uint32_t n_dims;
    uint64_t dims[4];  // as the checkpoint has them
};

struct kva_weights {
    struct kva_weight global[KVA_N_ROLES];
    struct kva_weight (*layers)[KVA_N_ROLES];  // [n_layers]
    size_t n_layers;
    struct kva_safetensors *checkpoint;  // open between the two steps; NULL: random
};

// Loads options->weights ("random": seeded values of the config's shapes) into one ledger entry. Errors: KVA_BAD_INPUT
// with file and tensor (missing, wrong shape, a dtype that cannot be used), KVA_MACHINE.
// In two steps, so that everything is allocated before the work of filling begins: kva_weights_place takes the memory
// and reads the shapes, kva_weights_fill the values.
enum kva_status kva_weights_place(const struct kva_model *model, const struct kva_run_options *options,
                                  struct kva_ledger *ledger, struct kva_weights *weights, struct kva_error *error);
enum kva_status kva_weights_fill(const struct kva_model *model, const struct kva_run_options *options,
                                 struct kva_ledger *ledger, struct kva_weights *weights, struct kva_error *error);
void kva_weights_release(struct kva_weights *weights);  // the host's part; the ledger frees the device's

static inline const struct kva_weight *kva_layer_weight(const struct kva_weights *weights, size_t layer,
                                                        enum kva_role role)
{
    return &weights->layers[layer][role];
}

#endif
