// Versions of engines: which is older, and which range of them a fact holds for.
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "engine/facts.h"

// "b8390" (a build, before all others), "v0.5.0", "0.10.1.1", "1.3.0rc9" (before 1.3.0), "0.5.5.post3" (after 0.5.5).
enum { PARTS = 4 };
struct parsed {
    bool release;  // not a build
    long parts[PARTS];
    long candidate;  // LONG_MAX: not a release candidate
    long post;       // a repaired package of the same release; 0: the release itself
};

static bool read_number(const char **text, long *number)
{
    if (!isdigit((unsigned char)**text))
        return false;
    char *end;
    *number = strtol(*text, &end, 10);
    *text = end;
    return *number >= 0 && *number < LONG_MAX;
}

static bool parse(const char *text, struct parsed *parsed)
{
    *parsed = (struct parsed){.release = *text != 'b', .candidate = LONG_MAX};
    if (*text == 'b' || *text == 'v')
        text++;
    for (size_t i = 0; i < PARTS; i++) {
        if (!read_number(&text, &parsed->parts[i]))
            return false;
        if (*text != '.' || !isdigit((unsigned char)text[1]))
            break;
        text++;
    }
    static const char CANDIDATE[] = "rc", POST[] = ".post";
    if (strncmp(text, CANDIDATE, strlen(CANDIDATE)) == 0) {
        text += strlen(CANDIDATE);
        if (!read_number(&text, &parsed->candidate))
            return false;
    }
    if (strncmp(text, POST, strlen(POST)) == 0) {
        text += strlen(POST);
        if (!read_number(&text, &parsed->post))
            return false;
    }
    return *text == '\0';
}

static int order(long a, long b)
{
    return (a > b) - (a < b);
}

int kva_version_compare(const char *a, const char *b, bool *comparable)
{
    struct parsed pa, pb;
    *comparable = parse(a, &pa) && parse(b, &pb);
    if (!*comparable)
        return 0;
    int result = order(pa.release, pb.release);
    for (size_t i = 0; result == 0 && i < PARTS; i++)
        result = order(pa.parts[i], pb.parts[i]);
    if (result == 0)
        result = order(pa.candidate, pb.candidate);
    return result != 0 ? result : order(pa.post, pb.post);
}

size_t kva_version_index(const struct kva_engine_file *file, const char *version)
{
    bool comparable;
    for (size_t i = 0; i < file->n_versions; i++)  // as it is written, nearly always
        if (strcmp(file->versions[i].version, version) == 0)
            return i;
    for (size_t i = 0; i < file->n_versions; i++)
        if (kva_version_compare(file->versions[i].version, version, &comparable) == 0 && comparable)
            return i;
    return SIZE_MAX;
}

bool kva_range_holds(const struct kva_engine_file *file, const char *since, const char *until, size_t index)
{
    bool comparable;
    const char *version = file->versions[index].version;
    return (since == NULL || kva_version_compare(since, version, &comparable) <= 0) &&
           (until == NULL || kva_version_compare(version, until, &comparable) <= 0);
}
