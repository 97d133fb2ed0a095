// The interface of kvatlas-fetch.so: one GET over HTTPS.
#ifndef KVA_FETCH_FETCH_H
#define KVA_FETCH_FETCH_H

#include "kvatlas.h"

#define KVA_FETCH_ABI 1
#define KVA_FETCH_SYMBOL "kva_fetch_entry"

struct kva_fetch_request {
    const char *url;
    const char *token;  // sent to the host of `url` only, never where a redirect leads; NULL: none
    uint64_t limit;     // bytes of the answer
    uint64_t length;    // only the first so many bytes of the file (a range); 0: the whole file
    bool plain;         // http is allowed: the endpoint is on this machine
};

struct kva_fetch_answer {
    int code;     // of HTTP
    char *bytes;  // [length + 1], one zero at the end; free() it
    size_t length;
    uint64_t whole;  // of a range: bytes of the whole file; 0: not told
    char type[64];   // Content-Type
};

struct kva_fetch {
    uint32_t abi;
    // KVA_OK also when the answer is an error of the server: see `code`. Errors: KVA_BAD_INPUT (too long), KVA_MACHINE
    // (no such host, no connection, timeout, TLS, too many redirects).
    enum kva_status (*get)(const struct kva_fetch_request *request, struct kva_fetch_answer *answer,
                           struct kva_error *error);
};

typedef const struct kva_fetch *(*kva_fetch_entry_type)(void);
const struct kva_fetch *kva_fetch_entry(void);

#endif
