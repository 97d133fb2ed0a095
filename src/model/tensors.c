// What the checkpoint should hold: the architecture file's tensors, one for each layer they are of, with shapes from
// the values; and from these the parameters and the weight bytes.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/build.h"

enum { MAX_TENSORS = 1 << 20, MAX_CLASSES = 32 };

// Tensors while their number is not known yet.
struct list {
    struct kva_tensor *tensors;
    const char **classes;
    size_t n, room;
};

static enum kva_status push(struct kva_build *build, struct list *list, const struct kva_tensor *tensor,
                            const char *class)
{
    if (list->n == list->room) {
        size_t room = list->room == 0 ? 256 : list->room * 2;
        if (room > MAX_TENSORS)
            return kva_build_fail(build, tensor->name, "is one of more than %d tensors", MAX_TENSORS);
        struct kva_tensor *tensors = realloc(list->tensors, room * sizeof *tensors);
        if (tensors == NULL)
            return kva_build_memory(build);
        list->tensors = tensors;
        const char **classes = realloc(list->classes, room * sizeof *classes);
        if (classes == NULL)
            return kva_build_memory(build);
        list->classes = classes;
        list->room = room;
    }
    list->tensors[list->n] = *tensor;
    list->classes[list->n++] = class;
    return KVA_OK;
}

enum kva_status kva_class_add(struct kva_build *build, const char *name, uint64_t tensors, uint64_t parameters,
                              uint64_t bytes)
{
    struct kva_model *model = build->model;
    size_t i = 0;
    while (i < model->n_weight_classes && strcmp(model->weight_classes[i].name, name) != 0)
        i++;
    if (i == MAX_CLASSES)
        return kva_fail(build->error, KVA_BAD_INPUT, build->arch->model_type, "class",
                        "there are more than %d classes of tensors", MAX_CLASSES);
    if (model->weight_classes == NULL)
        model->weight_classes = kva_arena_alloc(build->arena, MAX_CLASSES, sizeof *model->weight_classes);
    if (model->weight_classes == NULL)
        return kva_build_memory(build);
    struct kva_weight_class *class = &model->weight_classes[i];
    if (i == model->n_weight_classes) {
        *class = (struct kva_weight_class){.name = name};
        model->n_weight_classes++;
    }
    class->tensors += tensors;
    if (!kva_add(class->parameters, parameters, &class->parameters))
        return kva_build_fail(build, name, "the weights have more parameters than 64 bits can count");
    if (bytes == KVA_UNKNOWN)
        class->bytes = KVA_UNKNOWN;
    else if (class->bytes != KVA_UNKNOWN && !kva_add(class->bytes, bytes, &class->bytes))
        return kva_build_fail(build, name, "the weights have more bytes than 64 bits can count");
    return KVA_OK;
}

static const char *tensor_name(struct kva_build *build, const struct kva_arch_tensor *from, int32_t layer)
{
    const char *prefix =
        build->wrapper != NULL && build->wrapper->tensor_prefix != NULL ? build->wrapper->tensor_prefix : "";
    const char *brace = strstr(from->name, "{i}");
    if (brace == NULL)
        return kva_arena_printf(build->arena, "%s%s", prefix, from->name);
    return kva_arena_printf(build->arena, "%s%.*s%d%s", prefix, (int)(brace - from->name), from->name, (int)layer,
                            brace + strlen("{i}"));
}

static bool is_of_kind(const struct kva_arch_tensor *from, const char *kind)
{
    for (unsigned i = 0; i < from->n_kinds; i++)
        if (strcmp(from->kinds[i], kind) == 0)
            return true;
    return from->n_kinds == 0;
}

// layer -1: a tensor of no layer
static enum kva_status expand(struct kva_build *build, const struct kva_arch_tensor *from, int32_t layer,
                              struct list *list)
{
    if (layer >= 0 && !is_of_kind(from, build->model->layers[layer].kind))
        return KVA_OK;
    int64_t wanted = 1;
    enum kva_status status = from->when != NULL ? kva_build_formula(build, from->when, layer, &wanted) : KVA_OK;
    if (status != KVA_OK || !wanted)
        return status;
    struct kva_tensor tensor = {.layer = layer, .role = from->role, .n_dims = from->n_shape};
    tensor.dtype = from->dtype != KVA_DTYPE_NONE ? from->dtype : build->model->dtype;
    tensor.name = tensor_name(build, from, layer);
    if (tensor.name == NULL)
        return kva_build_memory(build);
    uint64_t elements = 1;
    for (unsigned d = 0; d < from->n_shape; d++) {
        uint32_t dim;
        status = kva_build_count(build, from->shape[d], layer, 1, tensor.name, &dim);
        if (status != KVA_OK)
            return status;
        tensor.dims[d] = dim;
        if (!kva_mul(elements, dim, &elements))
            return kva_build_fail(build, tensor.name, "has more elements than 64 bits can count");
    }
    uint64_t bytes = KVA_UNKNOWN;
    if (tensor.dtype != KVA_DTYPE_NONE) {
        if (!kva_mul(elements, kva_dtype_bytes(tensor.dtype), &tensor.bytes) || tensor.bytes == KVA_UNKNOWN)
            return kva_build_fail(build, tensor.name, "has more bytes than 64 bits can count");
        bytes = tensor.bytes;
    }
    status = kva_class_add(build, from->weight_class, 1, elements, bytes);
    return status == KVA_OK ? push(build, list, &tensor, from->weight_class) : status;
}

static enum kva_status total(struct kva_build *build)
{
    struct kva_model *model = build->model;
    model->parameters = model->weight_bytes = 0;
    for (size_t i = 0; i < model->n_weight_classes; i++) {
        const struct kva_weight_class *class = &model->weight_classes[i];
        if (!kva_add(model->parameters, class->parameters, &model->parameters))
            return kva_build_fail(build, "", "the weights have more parameters than 64 bits can count");
        if (class->bytes == KVA_UNKNOWN)
            model->weight_bytes = KVA_UNKNOWN;
        else if (model->weight_bytes != KVA_UNKNOWN &&
                 !kva_add(model->weight_bytes, class->bytes, &model->weight_bytes))
            return kva_build_fail(build, "", "the weights have more bytes than 64 bits can count");
    }
    return KVA_OK;
}

enum kva_status kva_tensors_expand(struct kva_build *build)
{
    struct kva_model *model = build->model;
    const struct kva_arch *arch = build->arch;
    model->parameters = model->weight_bytes = KVA_UNKNOWN;
    model->weight_source = "config";
    if (arch->n_tensors == 0)
        return KVA_OK;
    struct list list = {0};
    enum kva_status status = KVA_OK;
    for (unsigned t = 0; t < arch->n_tensors && status == KVA_OK; t++)
        if (strstr(arch->tensors[t].name, "{i}") == NULL)
            status = expand(build, &arch->tensors[t], -1, &list);
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++)
        for (unsigned t = 0; t < arch->n_tensors && status == KVA_OK; t++)
            if (strstr(arch->tensors[t].name, "{i}") != NULL)
                status = expand(build, &arch->tensors[t], (int32_t)i, &list);
    if (status == KVA_OK) {
        model->tensors = kva_arena_alloc(build->arena, list.n + 1, sizeof *model->tensors);
        build->classes = kva_arena_alloc(build->arena, list.n + 1, sizeof *build->classes);
        if (model->tensors == NULL || build->classes == NULL)
            status = kva_build_memory(build);
        else if (list.n > 0) {
            memcpy(model->tensors, list.tensors, list.n * sizeof *list.tensors);
            memcpy(build->classes, list.classes, list.n * sizeof *list.classes);
            model->n_tensors = list.n;
        }
    }
    free(list.classes);
    free(list.tensors);
    return status == KVA_OK ? total(build) : status;
}
