// "did you mean": the nearest of a list of words.
#include <string.h>

#include "base/text.h"

enum { LONGEST = 40 };

static size_t least(size_t a, size_t b, size_t c)
{
    size_t ab = a < b ? a : b;
    return ab < c ? ab : c;
}

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment) between two words of at most
// LONGEST letters.
static size_t distance(const char *a, const char *b)
{
    size_t rows[3][LONGEST + 1], la = strlen(a), lb = strlen(b);
    if (la > LONGEST || lb > LONGEST)
        return LONGEST;
    size_t *before = rows[0], *above = rows[1], *here = rows[2];
    for (size_t j = 0; j <= lb; j++)
        above[j] = j;
    for (size_t i = 1; i <= la; i++) {
        here[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            here[j] = least(above[j] + 1, here[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < here[j])
                here[j] = before[j - 2] + 1;
        }
        size_t *spare = before;
        before = above;
        above = here;
        here = spare;
    }
    return above[lb];
}

const char *kva_nearest(const char *text, const char *const *candidates, size_t n)
{
    const char *nearest = NULL;
    size_t best = strlen(text) / 3 + 1;  // further away is another word
    for (size_t i = 0; i < n; i++) {
        size_t away = distance(text, candidates[i]);
        if (away <= best && (nearest == NULL || away < best)) {
            best = away;
            nearest = candidates[i];
        }
    }
    return nearest;
}
