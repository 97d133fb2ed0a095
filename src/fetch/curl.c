// One GET with libcurl: bounded in time and in bytes, and with a token that stays with the host it is for.
#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fetch/fetch.h"

enum { CONNECT_SECONDS = 15, SECONDS = 120, STALLED_SECONDS = 20, MAX_REDIRECTS = 5 };

struct body {
    struct kva_fetch_answer *answer;
    uint64_t limit;
    size_t capacity;
    bool too_long, no_memory;
};

static size_t take_body(char *bytes, size_t size, size_t n, void *user)
{
    struct body *body = user;
    struct kva_fetch_answer *answer = body->answer;
    const size_t more = size * n;
    if (more > body->limit - answer->length) {
        body->too_long = true;
        return 0;
    }
    if (answer->length + more + 1 > body->capacity) {
        const size_t capacity = 2 * (answer->length + more) + 1;
        char *grown = realloc(answer->bytes, capacity);
        if (grown == NULL) {
            body->no_memory = true;
            return 0;
        }
        answer->bytes = grown;
        body->capacity = capacity;
    }
    memcpy(answer->bytes + answer->length, bytes, more);
    answer->length += more;
    answer->bytes[answer->length] = '\0';
    return more;
}

// Content-Range: bytes 0-1048575/988097824
static size_t take_header(char *bytes, size_t size, size_t n, void *user)
{
    static const char NAME[] = "content-range:";
    struct kva_fetch_answer *answer = user;
    const size_t length = size * n;
    char line[128];
    if (length >= sizeof NAME && length < sizeof line && curl_strnequal(bytes, NAME, sizeof NAME - 1)) {
        memcpy(line, bytes, length);
        line[length] = '\0';
        const char *slash = strchr(line, '/');
        answer->whole = slash != NULL && slash[1] != '*' ? strtoull(slash + 1, NULL, 10) : 0;
    }
    return length;
}

static enum kva_status fail_curl(CURLcode code, const struct body *body, const char *detail, const char *url,
                                 struct kva_error *error)
{
    if (body->no_memory || code == CURLE_OUT_OF_MEMORY)
        return kva_fail_memory(error, body->capacity);
    if (body->too_long || code == CURLE_FILESIZE_EXCEEDED)
        return kva_fail(error, KVA_BAD_INPUT, url, NULL, "the answer is longer than the %llu bytes allowed",
                        (unsigned long long)body->limit);
    if (code == CURLE_TOO_MANY_REDIRECTS)
        return kva_fail(error, KVA_MACHINE, url, NULL, "was redirected more than %d times", MAX_REDIRECTS);
    if (code == CURLE_UNSUPPORTED_PROTOCOL)
        return kva_fail(error, KVA_MACHINE, url, NULL, "leads to an address that is not https");
    return kva_fail(error, KVA_MACHINE, url, NULL, "cannot be fetched: %s",
                    detail[0] != '\0' ? detail : curl_easy_strerror(code));
}

static bool set_up(CURL *curl, const struct kva_fetch_request *request, struct body *body, char *detail)
{
    const char *protocols = request->plain ? "http,https" : "https";
    const char *certificates = getenv("SSL_CERT_FILE");
    bool good = true;
#define SET(option, value) good = good && curl_easy_setopt(curl, option, value) == CURLE_OK
    SET(CURLOPT_URL, request->url);
    SET(CURLOPT_ERRORBUFFER, detail);
    SET(CURLOPT_PROTOCOLS_STR, protocols);
    SET(CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    SET(CURLOPT_FOLLOWLOCATION, 1L);
    SET(CURLOPT_MAXREDIRS, (long)MAX_REDIRECTS);
    SET(CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    SET(CURLOPT_TIMEOUT, (long)SECONDS);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)STALLED_SECONDS);
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_USERAGENT, "kvatlas");
    SET(CURLOPT_WRITEFUNCTION, take_body);
    SET(CURLOPT_WRITEDATA, body);
    SET(CURLOPT_HEADERFUNCTION, take_header);
    SET(CURLOPT_HEADERDATA, body->answer);
    if (request->plain)
        SET(CURLOPT_NOPROXY, "*");  // this machine is reached without one
    if (certificates != NULL && *certificates != '\0')
        SET(CURLOPT_CAINFO, certificates);
    if (request->token != NULL) {
        // libcurl takes it off when a redirect leads to another host, port or protocol
        SET(CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        SET(CURLOPT_XOAUTH2_BEARER, request->token);
        SET(CURLOPT_UNRESTRICTED_AUTH, 0L);
    }
    char range[48];
    snprintf(range, sizeof range, "0-%llu", (unsigned long long)request->length - 1);
    if (request->length > 0)
        SET(CURLOPT_RANGE, range);
    else
        SET(CURLOPT_ACCEPT_ENCODING, "");  // what it unpacks to counts against the limit
#undef SET
    return good;
}

static enum kva_status get(const struct kva_fetch_request *request, struct kva_fetch_answer *answer,
                           struct kva_error *error)
{
    char detail[CURL_ERROR_SIZE] = "";
    struct body body = {.answer = answer, .limit = request->limit};
    *answer = (struct kva_fetch_answer){0};
    CURL *curl = curl_easy_init();
    if (curl == NULL || !set_up(curl, request, &body, detail)) {
        curl_easy_cleanup(curl);
        return kva_fail(error, KVA_MACHINE, NULL, "--fetch", "libcurl cannot be set up");
    }
    const CURLcode code = curl_easy_perform(curl);
    enum kva_status status = KVA_OK;
    long response = 0;
    char *type = NULL;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &response);
    if (curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type) == CURLE_OK && type != NULL)
        snprintf(answer->type, sizeof answer->type, "%s", type);
    answer->code = (int)response;
    if (code != CURLE_OK)
        status = fail_curl(code, &body, detail, request->url, error);
    else if (answer->bytes == NULL && (answer->bytes = calloc(1, 1)) == NULL)
        status = kva_fail_memory(error, 1);
    curl_easy_cleanup(curl);
    if (status != KVA_OK) {
        free(answer->bytes);
        answer->bytes = NULL;
    }
    return status;
}

const struct kva_fetch *kva_fetch_entry(void)
{
    static const struct kva_fetch FETCH = {.abi = KVA_FETCH_ABI, .get = get};
    return &FETCH;
}
