// Tables of tests: one JSON object a line.
#ifndef TEST_JSONL_H
#define TEST_JSONL_H

#include <check.h>
#include <jansson.h>
#include <stdio.h>

static inline FILE *jsonl_open(const char *path)
{
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    return file;
}

// The next object, or NULL at the end. The caller lets go of it.
static inline json_t *jsonl_next(FILE *file)
{
    static char line[1 << 16];
    if (fgets(line, sizeof line, file) == NULL)
        return NULL;
    json_t *row = json_loads(line, 0, NULL);
    ck_assert_msg(row != NULL, "%.200s", line);
    return row;
}

#endif
