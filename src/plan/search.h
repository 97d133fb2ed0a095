// Searches over plans. What fits is monotone in a count (more tokens or more sequences never need fewer bytes), but not
// linear: windows fill, blocks round, pools split. So every answer is a value that was planned and fits, next to one
// that was planned and does not.
#ifndef KVA_PLAN_SEARCH_H
#define KVA_PLAN_SEARCH_H

#include "kvatlas.h"

struct kva_search {
    struct kva_atlas *atlas;
    const struct kva_model *model;
    struct kva_deployment deployment;  // tried, with one field after another changed
    struct kva_error *error;
};

// Does this deployment fit? One that the engine refuses does not. Errors: KVA_MACHINE.
enum kva_status kva_search_fits(struct kva_search *search, bool *fits);

// The largest value of *field (in search->deployment) in 1 .. most that fits; 0: none. most KVA_UNKNOWN: without an
// end, then KVA_UNKNOWN when 2^40 still fit. *field is left as it was.
enum kva_status kva_search_largest(struct kva_search *search, uint64_t *field, uint64_t most, uint64_t *found);
// The smallest in least .. most; 0: none.
enum kva_status kva_search_smallest(struct kva_search *search, uint64_t *field, uint64_t least, uint64_t most,
                                    uint64_t *found);

#endif
