// Short words for an engine's table of behaviours. Before it, BEHAVIOURS_OF says which struct they fill; the words of a
// choice stand in the order of the enum that its member holds.
#ifndef KVA_ENGINE_BEHAVIOUR_ROWS_H
#define KVA_ENGINE_BEHAVIOUR_ROWS_H

#include <stddef.h>

#include "engine/facts.h"

// clang-format off
#define BEHAVIOUR(type, member, words) {#member, KVA_BEHAVIOUR_##type, offsetof(BEHAVIOURS_OF, member), words}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FLAG(member) BEHAVIOUR(FLAG, member, NULL)
#define COUNT(member) BEHAVIOUR(COUNT, member, NULL)
#define REAL(member) BEHAVIOUR(REAL, member, NULL)
#define TEXT(member) BEHAVIOUR(TEXT, member, NULL)
#define CHOICE(member, ...) BEHAVIOUR(CHOICE, member, WORDS(__VA_ARGS__))
// clang-format on

#endif
