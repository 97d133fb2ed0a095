#include "model/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/module.h"
#include "base/text.h"
#include "fetch/fetch.h"

enum { INDEX_LIMIT = 64 << 20, HEADER_LIMIT = 100 << 20, HEADER_GUESS = 1 << 20 };

// What the safetensors reader looks for beside a config.
static const char CONFIG[] = "config.json", INDEX[] = "model.safetensors.index.json", SINGLE[] = "model.safetensors";

struct hub {
    const struct kva_fetch *fetch;
    const struct kva_hub_id *id;
    const char *endpoint, *token;
    size_t endpoint_length;  // without slashes at its end
    bool plain;
    struct kva_error *error;
};

// ---------------------------------------------------------------- the hub

static bool is_this_machine(const char *host)
{
    static const char *const NAMES[] = {"127.0.0.1", "localhost", "[::1]"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        const size_t length = strlen(NAMES[i]);
        if (strncmp(host, NAMES[i], length) == 0 && (host[length] == '\0' || strchr(":/", host[length]) != NULL))
            return true;
    }
    return false;
}

static enum kva_status open_endpoint(struct hub *hub)
{
    hub->endpoint = getenv("HF_ENDPOINT");
    if (hub->endpoint == NULL || *hub->endpoint == '\0')
        hub->endpoint = "https://huggingface.co";
    hub->endpoint_length = strlen(hub->endpoint);
    while (hub->endpoint_length > 0 && hub->endpoint[hub->endpoint_length - 1] == '/')
        hub->endpoint_length--;
    hub->plain = strncmp(hub->endpoint, "http://", 7) == 0 && is_this_machine(hub->endpoint + 7);
    if (!hub->plain && strncmp(hub->endpoint, "https://", 8) != 0)
        return kva_fail(hub->error, KVA_BAD_INPUT, NULL, "HF_ENDPOINT",
                        "is \"%.100s\", an address with https:// was expected (http:// only on this machine)",
                        hub->endpoint);
    return KVA_OK;
}

// A token goes into a header: one with spaces or line ends could add headers of its own.
static enum kva_status open_token(struct hub *hub)
{
    hub->token = getenv("HF_TOKEN");
    if (hub->token == NULL || *hub->token == '\0') {
        hub->token = NULL;
        return KVA_OK;
    }
    for (const char *c = hub->token; *c != '\0'; c++)
        if (*c <= ' ' || *c == 0x7f)
            return kva_fail(hub->error, KVA_BAD_INPUT, NULL, "HF_TOKEN", "holds a character that no token has");
    return KVA_OK;
}

static enum kva_status open_hub(struct hub *hub)
{
    char path[PATH_MAX];
    void *found;
    enum kva_status status = open_endpoint(hub);
    if (status == KVA_OK)
        status = open_token(hub);
    if (status == KVA_OK)
        status = kva_module_open("fetch", "src/fetch", KVA_FETCH_SYMBOL, "--fetch", " (it is built where libcurl is)",
                                 &found, path, sizeof path, hub->error);
    if (status != KVA_OK)
        return status;
    kva_fetch_entry_type entry;
    *(void **)&entry = found;
    hub->fetch = entry();
    return hub->fetch->abi == KVA_FETCH_ABI
               ? KVA_OK
               : kva_fail(hub->error, KVA_MACHINE, path, NULL, "has another interface: build both anew");
}

// ENDPOINT/ID/resolve/REVISION/FILE; a slash in the revision is written %2F.
static enum kva_status make_url(const struct hub *hub, const char *file, char *url, size_t size)
{
    char revision[3 * sizeof hub->id->revision];
    size_t used = 0;
    for (const char *c = hub->id->revision; *c != '\0'; c++)
        used += (size_t)snprintf(revision + used, sizeof revision - used, *c == '/' ? "%%2F" : "%c", *c);
    const int length = snprintf(url, size, "%.*s/%s/resolve/%s/%s", (int)hub->endpoint_length, hub->endpoint,
                                hub->id->repository, revision, file);
    return length > 0 && (size_t)length < size
               ? KVA_OK
               : kva_fail(hub->error, KVA_BAD_INPUT, NULL, "HF_ENDPOINT", "is too long");
}

static enum kva_status get(const struct hub *hub, const char *file, uint64_t limit, uint64_t length,
                           struct kva_fetch_answer *answer)
{
    char url[KVA_ORIGIN_PATH];
    enum kva_status status = make_url(hub, file, url, sizeof url);
    if (status != KVA_OK)
        return status;
    const struct kva_fetch_request request = {
        .url = url, .token = hub->token, .limit = limit, .length = length, .plain = hub->plain};
    return hub->fetch->get(&request, answer, hub->error);
}

// ---------------------------------------------------------------- the config

static enum kva_status fail_answer(const struct hub *hub, const char *url, const struct kva_fetch_answer *answer)
{
    if (answer->code == 401 || answer->code == 403)
        return kva_fail(hub->error, KVA_BAD_INPUT, url, NULL,
                        "was answered with %d: the model is gated, private or not there; HF_TOKEN %s", answer->code,
                        hub->token != NULL ? "was sent" : "is not set");
    if (answer->code == 404)
        return kva_fail(hub->error, KVA_BAD_INPUT, url, NULL,
                        "was answered with 404: there is no such model, no such revision, or it has no config.json");
    return kva_fail(hub->error, KVA_MACHINE, url, NULL, "was answered with %d, 200 was expected", answer->code);
}

static enum kva_status get_config(const struct hub *hub, struct kva_origin *origin)
{
    struct kva_fetch_answer answer = {0};
    enum kva_status status = make_url(hub, CONFIG, origin->path, sizeof origin->path);
    if (status == KVA_OK)
        status = get(hub, CONFIG, KVA_CONFIG_LIMIT, 0, &answer);
    if (status != KVA_OK)
        return status;
    const size_t blank = strspn(answer.bytes, " \t\r\n");
    if (answer.code != 200)
        status = fail_answer(hub, origin->path, &answer);
    else if (answer.bytes[blank] == '<')
        status = kva_fail(hub->error, KVA_BAD_INPUT, origin->path, NULL,
                          "was answered with a page (%s), a config.json was expected; is HF_ENDPOINT right?",
                          answer.type[0] != '\0' ? answer.type : "HTML");
    if (status != KVA_OK) {
        free(answer.bytes);
        return status;
    }
    origin->bytes = origin->owned = answer.bytes;
    origin->length = answer.length;
    return KVA_OK;
}

// ---------------------------------------------------------------- the weights

static bool write_file(const struct kva_origin *origin, const char *name, const char *bytes, size_t length,
                       uint64_t whole)
{
    char path[KVA_ORIGIN_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", origin->folder, name);
    const int handle = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (handle < 0)
        return false;
    bool good = whole <= INT64_MAX && ftruncate(handle, (off_t)whole) == 0;
    for (size_t done = 0; good && done < length;) {
        const ssize_t wrote = write(handle, bytes + done, length - done);
        good = wrote > 0 || (wrote < 0 && errno == EINTR);
        done += wrote > 0 ? (size_t)wrote : 0;
    }
    return close(handle) == 0 && good;
}

static bool make_folder(struct kva_origin *origin)
{
    const char *temporary = getenv("TMPDIR");
    const int length = snprintf(origin->folder, sizeof origin->folder, "%s/kvatlas-XXXXXX",
                                temporary != NULL && *temporary != '\0' ? temporary : "/tmp");
    origin->temporary = length > 0 && (size_t)length < sizeof origin->folder && mkdtemp(origin->folder) != NULL;
    if (origin->temporary)
        origin->directory = origin->folder;
    return origin->temporary;
}

// The length that the first eight bytes state, with these eight. 0: no such header.
static uint64_t header_length(const struct kva_fetch_answer *answer)
{
    uint64_t length = 0;
    if (answer->code != 206 || answer->length < 8)
        return 0;
    for (int i = 7; i >= 0; i--)
        length = length << 8 | (unsigned char)answer->bytes[i];
    return length <= HEADER_LIMIT - 8 && length + 8 <= answer->whole ? length + 8 : 0;
}

// The header of model.safetensors as a file that is as long as the whole one and empty behind it: the reader of local
// checkpoints then reads it as any other.
static bool get_header(const struct hub *hub, struct kva_origin *origin)
{
    struct kva_fetch_answer answer = {0};
    bool good = get(hub, SINGLE, HEADER_GUESS, HEADER_GUESS, &answer) == KVA_OK;
    uint64_t length = good ? header_length(&answer) : 0;
    if (length > answer.length) {
        free(answer.bytes);
        answer.bytes = NULL;
        good = get(hub, SINGLE, length, length, &answer) == KVA_OK;
        length = good && header_length(&answer) == answer.length ? answer.length : 0;
    }
    good = good && length > 0 && make_folder(origin) && write_file(origin, SINGLE, answer.bytes, length, answer.whole);
    free(answer.bytes);
    return good;
}

// Weight bytes are worth a request or two, but no failure: without them the config tells what it can.
static void get_weights(struct hub *hub, struct kva_origin *origin)
{
    struct kva_error ignored;
    struct kva_error *error = hub->error;
    struct kva_fetch_answer answer = {0};
    hub->error = &ignored;
    bool good = get(hub, INDEX, INDEX_LIMIT, 0, &answer) == KVA_OK;
    if (good && answer.code == 200)
        good = make_folder(origin) && write_file(origin, INDEX, answer.bytes, answer.length, answer.length);
    else if (good && answer.code == 404)
        good = get_header(hub, origin);
    else
        good = false;
    free(answer.bytes);
    if (!good) {
        snprintf(origin->note, sizeof origin->note, "%s",
                 "the hub did not say how large the weights are: no safetensors index and no header came");
        origin->directory = NULL;
    }
    hub->error = error;
}

enum kva_status kva_fetch_model(const struct kva_hub_id *id, struct kva_origin *origin, struct kva_error *error)
{
    struct hub hub = {.id = id, .error = error};
    enum kva_status status = open_hub(&hub);
    if (status == KVA_OK)
        status = get_config(&hub, origin);
    if (status == KVA_OK)
        get_weights(&hub, origin);
    return status;
}

void kva_fetch_remove(const char *folder)
{
    char path[KVA_ORIGIN_PATH + 64];
    const char *const names[] = {INDEX, SINGLE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}
