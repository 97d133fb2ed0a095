// Reads data/engines/*.yaml as the library does and writes them as C tables, so that a program that plans does not
// parse them each time it starts: embed_engines OUTPUT FILE...
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "engine/facts_schema.h"

enum { LIMIT = 16 << 20 };

static void put_text(FILE *out, const char *text)
{
    if (text == NULL) {
        fputs("NULL", out);
        return;
    }
    fputs("(char *)\"", out);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ' || c > '~' || c == '?')  // octal ends after three digits, whatever follows
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

static void put_field(FILE *out, const char *name, const char *text)
{
    fprintf(out, ".%s = ", name);
    put_text(out, text);
    fputs(", ", out);
}

// A list of texts as an array in place: (char *[]){"a", "b"}.
static void put_list(FILE *out, const char *name, char *const *texts, unsigned n)
{
    if (n == 0)
        return;
    fprintf(out, ".%s = (char *[]){", name);
    for (unsigned i = 0; i < n; i++) {
        put_text(out, texts[i]);
        fputs(", ", out);
    }
    fprintf(out, "}, .n_%s = %u, ", name, n);
}

static void put_range(FILE *out, const char *since, const char *until)
{
    put_field(out, "since", since);
    put_field(out, "until", until);
}

static void put_versions(FILE *out, const struct kva_engine_file *file)
{
    for (unsigned i = 0; i < file->n_versions; i++) {
        fputs("    {", out);
        put_field(out, "version", file->versions[i].version);
        put_field(out, "date", file->versions[i].date);
        put_list(out, "references", file->versions[i].references, file->versions[i].n_references);
        fputs("},\n", out);
    }
}

static void put_behaviours(FILE *out, const struct kva_engine_file *file)
{
    for (unsigned b = 0; b < file->n_behaviours; b++) {
        const struct kva_behaviour_row *row = &file->behaviours[b];
        fputs("    {", out);
        put_field(out, "name", row->name);
        put_field(out, "about", row->about);
        fputs(".values = (struct kva_value_row[]){\n", out);
        for (unsigned v = 0; v < row->n_values; v++) {
            fputs("        {", out);
            put_range(out, row->values[v].since, row->values[v].until);
            put_field(out, "value", row->values[v].value);
            put_list(out, "references", row->values[v].references, row->values[v].n_references);
            fputs("},\n", out);
        }
        fprintf(out, "    }, .n_values = %u},\n", row->n_values);
    }
}

static void put_rules(FILE *out, const struct kva_engine_file *file)
{
    for (unsigned i = 0; i < file->n_rules; i++) {
        const struct kva_rule_row *row = &file->rules[i];
        fputs("    {", out);
        put_field(out, "name", row->name);
        put_list(out, "match", row->match, row->n_match);
        put_range(out, row->since, row->until);
        put_field(out, "value", row->value);
        put_list(out, "references", row->references, row->n_references);
        fputs("},\n", out);
    }
}

static void put_side(FILE *out, const char *name, const struct kva_side_format *side)
{
    fprintf(out, ".%s = {%u, %u, %u, %u}, ", name, side->bits, side->group, side->group_bytes, side->vector_bytes);
}

static void put_kv_types(FILE *out, const struct kva_engine_file *file)
{
    for (unsigned i = 0; i < file->n_kv_types; i++) {
        const struct kva_kv_type *type = &file->kv_types[i];
        fputs("    {", out);
        put_list(out, "names", type->names, type->n_names);
        put_range(out, type->since, type->until);
        put_side(out, "k", &type->k);
        put_side(out, "v", &type->v);
        fprintf(out, ".slot_multiple = %u, ", type->slot_multiple);
        put_list(out, "references", type->references, type->n_references);
        fputs("},\n", out);
    }
}

static void put_lines(FILE *out, const struct kva_engine_file *file)
{
    for (unsigned i = 0; i < file->n_lines; i++) {
        fputs("    {", out);
        put_field(out, "id", file->lines[i].id);
        put_range(out, file->lines[i].since, file->lines[i].until);
        put_field(out, "text", file->lines[i].text);
        put_list(out, "references", file->lines[i].references, file->lines[i].n_references);
        fputs("},\n", out);
    }
}

static void put_array(FILE *out, const char *type, const char *name, unsigned engine, unsigned n,
                      void (*put)(FILE *, const struct kva_engine_file *), const struct kva_engine_file *file)
{
    fprintf(out, "static struct %s %s_%u[] = {\n", type, name, engine);
    put(out, file);
    fputs(n == 0 ? "    {0},\n};\n" : "};\n", out);
}

static void put_engine(FILE *out, unsigned engine, const struct kva_engine_file *file)
{
    put_array(out, "kva_version_row", "versions", engine, file->n_versions, put_versions, file);
    put_array(out, "kva_behaviour_row", "behaviours", engine, file->n_behaviours, put_behaviours, file);
    put_array(out, "kva_rule_row", "rules", engine, file->n_rules, put_rules, file);
    put_array(out, "kva_kv_type", "kv_types", engine, file->n_kv_types, put_kv_types, file);
    put_array(out, "kva_line_row", "lines", engine, file->n_lines, put_lines, file);
}

static void put_file(FILE *out, unsigned engine, const struct kva_engine_file *file)
{
    fputs("    {", out);
    put_field(out, "id", file->id);
    put_field(out, "name", file->name);
    put_field(out, "summary", file->summary);
    fprintf(out,
            ".versions = versions_%u, .n_versions = %u, .behaviours = behaviours_%u, .n_behaviours = %u, "
            ".rules = rules_%u, .n_rules = %u, .kv_types = kv_types_%u, .n_kv_types = %u, .lines = lines_%u, "
            ".n_lines = %u},\n",
            engine, file->n_versions, engine, file->n_behaviours, engine, file->n_rules, engine, file->n_kv_types,
            engine, file->n_lines);
}

static bool read_engine(const char *path, struct kva_engine_file **file)
{
    struct kva_error error = {0};
    char *bytes = NULL, line[1024];
    size_t length = 0;
    enum kva_status status = kva_file_read(path, LIMIT, &bytes, &length, &error);
    if (status == KVA_OK)
        status = kva_yaml_load(&(struct kva_atlas_file){.bytes = bytes, .length = length, .name = (char *)path},
                               &kva_engine_schema, (void **)file, &error);
    free(bytes);
    if (status != KVA_OK)
        fprintf(stderr, "%s\n", kva_error_line(&error, line, sizeof line));
    return status == KVA_OK;
}

int main(int argc, char **argv)
{
    const unsigned n = argc > 2 ? (unsigned)argc - 2 : 0;
    struct kva_engine_file **files = calloc(n + 1, sizeof *files);
    FILE *out = argc > 1 && files != NULL ? fopen(argv[1], "w") : NULL;
    bool good = out != NULL;
    for (unsigned i = 0; good && i < n; i++)
        good = read_engine(argv[i + 2], &files[i]);
    if (good) {
        fputs("// Written by tools/embed_engines.c from data/engines/.\n#include \"engine/facts.h\"\n\n", out);
        for (unsigned i = 0; i < n; i++)
            put_engine(out, i, files[i]);
        fputs("const struct kva_engine_file kva_embedded_engines[] = {\n", out);
        for (unsigned i = 0; i < n; i++)
            put_file(out, i, files[i]);
        fprintf(out, "    {0},\n};\nconst size_t kva_n_embedded_engines = %u;\n", n);
    }
    for (unsigned i = 0; files != NULL && i < n; i++)
        kva_yaml_free(&kva_engine_schema, files[i]);
    free(files);
    if (out != NULL && fclose(out) != 0)
        good = false;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
