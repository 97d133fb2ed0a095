// A model from the hub: --fetch. The bytes come through kvatlas-fetch.so, which alone is linked with libcurl and is
// loaded when something is fetched, so that nothing else pays for it.
#ifndef KVA_MODEL_FETCH_H
#define KVA_MODEL_FETCH_H

#include "model/hub.h"
#include "model/source.h"

// Fetches config.json into *origin, and beside it what tells the weight bytes: the safetensors index, or the header of
// model.safetensors. HF_ENDPOINT and HF_TOKEN are honoured. Errors: KVA_BAD_INPUT (no such model, no access, an answer
// that is no config), KVA_MACHINE (network, libcurl).
enum kva_status kva_fetch_model(const struct kva_hub_id *id, struct kva_origin *origin, struct kva_error *error);
// Removes the folder that kva_fetch_model made.
void kva_fetch_remove(const char *folder);

#endif
