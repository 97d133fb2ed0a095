#include "plan/search.h"

#include "base/checked.h"

static const uint64_t ENDLESS = UINT64_C(1) << 40;

enum kva_status kva_search_fits(struct kva_search *search, bool *fits)
{
    struct kva_plan *plan;
    struct kva_error refused = {0};
    enum kva_status status = kva_plan_make(search->atlas, search->model, &search->deployment, &plan, &refused);
    *fits = status == KVA_OK && plan->capacity.known && plan->capacity.fits;
    if (status == KVA_OK)
        kva_plan_free(plan);
    if (status == KVA_MACHINE && search->error != NULL)
        *search->error = refused;
    return status == KVA_MACHINE ? status : KVA_OK;
}

static enum kva_status fits_with(struct kva_search *search, uint64_t *field, uint64_t value, bool *fits)
{
    *field = value;
    return kva_search_fits(search, fits);
}

// `low` fits (or is 0) and `high` does not: halves until they are neighbours.
static enum kva_status halve(struct kva_search *search, uint64_t *field, uint64_t low, uint64_t high, uint64_t *found)
{
    enum kva_status status = KVA_OK;
    while (status == KVA_OK && high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        bool fits;
        status = fits_with(search, field, middle, &fits);
        if (fits)
            low = middle;
        else
            high = middle;
    }
    *found = low;
    return status;
}

enum kva_status kva_search_largest(struct kva_search *search, uint64_t *field, uint64_t most, uint64_t *found)
{
    const uint64_t before = *field, end = most == KVA_UNKNOWN ? ENDLESS : most;
    uint64_t low = 0, high = kva_min(end, kva_max(before, 1));
    bool fits = true;
    enum kva_status status = KVA_OK;
    *found = 0;
    if (most != KVA_UNKNOWN) {  // the end is the likeliest answer
        status = fits_with(search, field, end, &fits);
        if (fits)
            low = end;
        high = end;
    }
    while (status == KVA_OK && most == KVA_UNKNOWN && fits && low < end) {
        status = fits_with(search, field, high, &fits);
        if (fits) {
            low = high;
            high = kva_min(high * 2, end);
        }
    }
    if (status == KVA_OK && low < end)
        status = halve(search, field, low, high, found);
    else if (status == KVA_OK)
        *found = most == KVA_UNKNOWN ? KVA_UNKNOWN : end;
    *field = before;
    return status;
}

enum kva_status kva_search_smallest(struct kva_search *search, uint64_t *field, uint64_t least, uint64_t most,
                                    uint64_t *found)
{
    const uint64_t before = *field;
    uint64_t low = least, high = most;
    bool fits;
    *found = 0;
    enum kva_status status = least <= most ? fits_with(search, field, most, &fits) : KVA_OK;
    while (status == KVA_OK && least <= most && fits && low < high) {
        const uint64_t middle = low + (high - low) / 2;
        bool here;
        status = fits_with(search, field, middle, &here);
        if (here)
            high = middle;
        else
            low = middle + 1;
    }
    if (status == KVA_OK && least <= most && fits)
        *found = high;
    *field = before;
    return status;
}
