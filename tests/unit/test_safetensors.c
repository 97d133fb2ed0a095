// Checkpoint headers: whole files, shards, and files made to mislead. Reference of the format:
// https://github.com/huggingface/safetensors#format
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/safetensors.h"
#include "unit.h"

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/kva-st-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static const char *in_folder(const char *name, char *path)
{
    snprintf(path, 256, "%s/%s", folder, name);
    return path;
}

static void teardown(void)
{
    static const char *const NAMES[] = {"a.safetensors", "b.safetensors", "model.safetensors",
                                        "model.safetensors.index.json"};
    char path[256];
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        unlink(in_folder(NAMES[i], path));
    rmdir(folder);
}

static void write_bytes(const char *name, const void *bytes, size_t length)
{
    char path[256];
    FILE *file = fopen(in_folder(name, path), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

// A file with this header text, saying its length, and `payload` bytes of data.
static void write_file(const char *name, const char *header, size_t payload)
{
    size_t length = strlen(header), whole = 8 + length + payload;
    unsigned char *bytes = calloc(1, whole);
    ck_assert_ptr_nonnull(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < payload; i++)
        bytes[8 + length + i] = (unsigned char)i;
    write_bytes(name, bytes, whole);
    free(bytes);
}

static void refuses_file(const char *because, const char *tensor)
{
    char path[256];
    for (int headers_only = 0; headers_only < 2; headers_only++) {
        struct kva_error error = {0};
        struct kva_safetensors *checkpoint;
        enum kva_status status =
            kva_safetensors_open(in_folder("a.safetensors", path), headers_only, &checkpoint, &error);
        ck_assert_msg(status == KVA_BAD_INPUT, "accepted: %s", because);
        ck_assert_msg(strstr(error.text, because) != NULL, "%s: %s", error.key, error.text);
        ck_assert_str_eq(error.file, path);
        if (tensor != NULL)
            ck_assert_str_eq(error.key, tensor);
        ck_assert_ptr_null(checkpoint);
    }
}

static void refuses(const char *header, size_t payload, const char *because, const char *tensor)
{
    write_file("a.safetensors", header, payload);
    refuses_file(because, tensor);
}

START_TEST(reads_what_is_there)
{
    char path[256];
    write_file("a.safetensors",
               "{\"__metadata__\":{\"format\":\"pt\"},"
               "\"w\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]},"
               "\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
               "\"e\":{\"dtype\":\"F32\",\"shape\":[0,7],\"data_offsets\":[4,4]}}  ",
               16);
    struct kva_safetensors *checkpoint;
    struct kva_error error = {0};
    ck_assert_msg(kva_safetensors_open(in_folder("a.safetensors", path), false, &checkpoint, &error) == KVA_OK, "%s",
                  error.text);
    ck_assert_uint_eq(kva_safetensors_count(checkpoint), 3);
    const struct kva_st_tensor *w = kva_safetensors_find(checkpoint, "w");
    ck_assert_ptr_nonnull(w);
    ck_assert_int_eq(w->dtype, KVA_BF16);
    ck_assert_uint_eq(w->n_dims, 2);
    ck_assert_uint_eq(w->dims[1], 3);
    ck_assert_uint_eq(w->bytes, 12);
    ck_assert_uint_eq(w->data[0], 4);
    ck_assert_uint_eq(kva_safetensors_find(checkpoint, "s")->n_dims, 0);
    ck_assert_ptr_null(kva_safetensors_find(checkpoint, "v"));
    ck_assert_ptr_null(kva_safetensors_at(checkpoint, 3));
    ck_assert(kva_safetensors_complete(checkpoint));
    kva_safetensors_close(checkpoint);
}
END_TEST

START_TEST(a_header_length_is_not_believed)
{
    const unsigned char huge[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}'};
    write_bytes("a.safetensors", huge, sizeof huge);
    refuses_file("says that its header has 18446744073709551615 bytes", NULL);
    const unsigned char beyond[] = {200, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    write_bytes("a.safetensors", beyond, sizeof beyond);
    refuses_file("says that its header has 200 bytes", NULL);
    write_bytes("a.safetensors", "abc", 3);
    refuses_file("too few", NULL);
    write_bytes("a.safetensors", "", 0);
    refuses_file("too few", NULL);
}
END_TEST

START_TEST(a_header_must_be_a_json_object)
{
    refuses("[1, 2]", 0, "object was expected", NULL);
    refuses("{\"a\":", 0, "not JSON", NULL);
    refuses("{} trailing", 0, "not JSON", NULL);
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
            "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
            8, "stands twice", "w");
    char *deep = malloc(200002);
    ck_assert_ptr_nonnull(deep);
    memset(deep, '[', 200000);
    deep[200000] = '\0';
    refuses(deep, 0, "not JSON", NULL);
    free(deep);
}
END_TEST

START_TEST(offsets_are_checked_against_everything)
{
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 7, "cut short", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8, "begin <= end", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}", 8, "begin <= end", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", 8, "begin <= end", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "begin <= end", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, "shape and dtype", "w");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
            "shape and dtype", "w");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"v\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
            6, "overlaps", "v");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
            "\"v\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[5,9]}}",
            9, "hole", "v");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 6, "holds 6 bytes", NULL);
}
END_TEST

// Types of https://github.com/huggingface/safetensors, Dtype, that no engine computes with and checkpoints hold.
START_TEST(packed_and_scale_types_are_read)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } TYPES[] = {{"U16", 2}, {"U32", 4}, {"U64", 8}, {"F8_E8M0", 1}, {"C64", 8}};
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
        ck_assert_uint_eq(kva_dtype_bytes(kva_dtype_parse(TYPES[i].name)), TYPES[i].bytes);
}
END_TEST

START_TEST(shapes_and_types_are_checked)
{
    refuses("{\"w\":{\"dtype\":\"F33\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "unknown dtype \"F33\"", "w");
    refuses("{\"w\":{\"dtype\":7,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "expected an object", "w");
    refuses("{\"w\":3}", 0, "expected an object", "w");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, "at most 8", "w");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", 1, "0 or more", "w");
    refuses("{\"w\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", 1, "0 or more", "w");
}
END_TEST

START_TEST(a_cut_file_is_refused_at_every_length)
{
    const char *header = "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    size_t length = strlen(header);
    unsigned char bytes[256] = {0};
    bytes[0] = (unsigned char)length;
    memcpy(bytes + 8, header, length);
    for (size_t cut = 0; cut < 8 + length + 4; cut++) {
        char path[256];
        struct kva_safetensors *checkpoint;
        write_bytes("a.safetensors", bytes, cut);
        ck_assert_int_eq(kva_safetensors_open(in_folder("a.safetensors", path), false, &checkpoint, NULL),
                         KVA_BAD_INPUT);
    }
}
END_TEST

#define ONE(name) "{\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}"

START_TEST(shards_and_their_index)
{
    struct kva_safetensors *checkpoint;
    struct kva_error error = {0};
    ck_assert(!kva_safetensors_present(folder));
    ck_assert_int_eq(kva_safetensors_open(folder, true, &checkpoint, &error), KVA_BAD_INPUT);
    write_file("a.safetensors", ONE("x"), 4);
    ck_assert(kva_safetensors_present(folder));  // exactly one file
    write_file("b.safetensors", ONE("y"), 4);
    ck_assert(!kva_safetensors_present(folder));
    const char index[] = "{\"metadata\":{\"total_size\":8},"
                         "\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}}";
    write_bytes("model.safetensors.index.json", index, strlen(index));
    ck_assert_msg(kva_safetensors_open(folder, false, &checkpoint, &error) == KVA_OK, "%s", error.text);
    ck_assert_uint_eq(kva_safetensors_count(checkpoint), 2);
    ck_assert_uint_eq(kva_safetensors_index_bytes(checkpoint), 8);
    ck_assert_uint_eq(kva_safetensors_find(checkpoint, "y")->data[3], 3);
    kva_safetensors_close(checkpoint);
    char path[256];
    unlink(in_folder("b.safetensors", path));
    ck_assert_int_eq(kva_safetensors_open(folder, false, &checkpoint, &error), KVA_BAD_INPUT);
    ck_assert_msg(kva_safetensors_open(folder, true, &checkpoint, &error) == KVA_OK, "%s", error.text);
    ck_assert(!kva_safetensors_complete(checkpoint));
    ck_assert_uint_eq(kva_safetensors_count(checkpoint), 1);
    kva_safetensors_close(checkpoint);
    write_file("b.safetensors", ONE("x"), 4);
    ck_assert_int_eq(kva_safetensors_open(folder, true, &checkpoint, &error), KVA_BAD_INPUT);
    ck_assert_ptr_nonnull(strstr(error.text, "another shard"));
}
END_TEST

START_TEST(an_index_may_not_leave_its_directory)
{
    struct kva_safetensors *checkpoint;
    static const char *const INDEXES[] = {"{\"weight_map\":{\"x\":\"../a.safetensors\"}}",
                                          "{\"weight_map\":{\"x\":\"/etc/passwd\"}}", "{\"weight_map\":{\"x\":5}}",
                                          "{\"weight_map\":[]}", "{}"};
    for (size_t i = 0; i < sizeof INDEXES / sizeof *INDEXES; i++) {
        struct kva_error error = {0};
        write_bytes("model.safetensors.index.json", INDEXES[i], strlen(INDEXES[i]));
        ck_assert_int_eq(kva_safetensors_open(folder, true, &checkpoint, &error), KVA_BAD_INPUT);
        ck_assert_str_ne(error.key, "");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("safetensors");
    TCase *tests = tcase_create("safetensors");
    suite_add_tcase(suite, tests);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, reads_what_is_there);
    tcase_add_test(tests, a_header_length_is_not_believed);
    tcase_add_test(tests, a_header_must_be_a_json_object);
    tcase_add_test(tests, offsets_are_checked_against_everything);
    tcase_add_test(tests, packed_and_scale_types_are_read);
    tcase_add_test(tests, shapes_and_types_are_checked);
    tcase_add_test(tests, a_cut_file_is_refused_at_every_length);
    tcase_add_test(tests, shards_and_their_index);
    tcase_add_test(tests, an_index_may_not_leave_its_directory);
    return unit_run(suite);
}
