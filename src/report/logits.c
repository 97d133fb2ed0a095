// Logits as a safetensors file: https://github.com/huggingface/safetensors#format
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "base/file.h"
#include "report/result.h"

enum kva_status kva_report_logits(const struct kva_result *result, const char *path, struct kva_error *error)
{
    struct kva_text header = {0}, file = {0};
    uint64_t logits, decode;
    if (result->logits == NULL)
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--logits", "the run kept no logits");
    if (!kva_mul3(result->logit_rows, result->vocab, sizeof(float), &logits) ||
        !kva_mul3(result->decode_rows, result->vocab, sizeof(float), &decode))
        return kva_fail(error, KVA_BAD_INPUT, NULL, "--logits", "the logits do not fit 64 bits");
    kva_text_printf(
        &header, "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 ",%" PRIu64 "],\"data_offsets\":[0,%" PRIu64 "]}",
        result->logit_rows, result->vocab, logits);
    if (decode > 0)
        kva_text_printf(&header,
                        ",\"decode_logits\":{\"dtype\":\"F32\",\"shape\":[%" PRIu64 ",%" PRIu64
                        "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                        result->decode_rows, result->vocab, logits, logits + decode);
    kva_text_printf(&header, "}");
    while (!header.failed && header.length % 8 != 0)
        kva_text_printf(&header, " ");
    const uint64_t length = header.length;
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (unsigned char)(length >> (8 * i));
    kva_text_add(&file, (const char *)prefix, sizeof prefix);
    if (!header.failed)
        kva_text_add(&file, header.bytes, header.length);
    kva_text_add(&file, (const char *)result->logits, logits);
    if (decode > 0)
        kva_text_add(&file, (const char *)result->decode_logits, decode);
    enum kva_status status = header.failed || file.failed ? kva_fail_memory(error, logits + decode)
                                                          : kva_file_write(path, file.bytes, file.length, error);
    kva_text_free(&header);
    kva_text_free(&file);
    return status;
}
