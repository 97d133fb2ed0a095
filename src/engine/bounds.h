// Numbers of a deployment beyond which no machine goes, so that an engine's products of a few of them cannot wrap.
#ifndef KVA_ENGINE_BOUNDS_H
#define KVA_ENGINE_BOUNDS_H

#include "engine/engine.h"

// Errors: KVA_BAD_INPUT, naming the field.
enum kva_status kva_check_bounds(struct kva_call *call);

#endif
