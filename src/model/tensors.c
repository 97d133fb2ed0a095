// What the checkpoint should hold: the architecture file's tensors, one for each layer they are of, with shapes from
// the values; and from these the parameters and the weight bytes.
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "model/build.h"
#include "model/quantization.h"

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

const char *kva_tensor_prefix(const char *prefix, const char **name)
{
    static const char INNER[] = "model.";
    if (strncmp(prefix, INNER, strlen(INNER)) != 0)
        return prefix;
    if (strncmp(*name, INNER, strlen(INNER)) != 0)
        return "";
    *name += strlen(INNER);
    return prefix;
}

static const char *tensor_name(struct kva_build *build, const struct kva_arch_tensor *from, int32_t layer)
{
    const char *name = from->name, *prefix = kva_tensor_prefix(build->tensor_prefix, &name);
    const char *brace = strstr(name, "{i}");
    if (brace == NULL)
        return kva_arena_printf(build->arena, "%s%s", prefix, name);
    return kva_arena_printf(build->arena, "%s%.*s%d%s", prefix, (int)(brace - name), name, (int)layer,
                            brace + strlen("{i}"));
}

static bool is_of_kind(const struct kva_arch_tensor *from, const char *kind)
{
    for (unsigned i = 0; i < from->n_kinds; i++)
        if (strcmp(from->kinds[i], kind) == 0)
            return true;
    return from->n_kinds == 0;
}

// Dims and bytes of one tensor; *wanted false: this model has none such. layer -1: a tensor of no layer.
static enum kva_status measure(struct kva_build *build, const struct kva_arch_tensor *from, int32_t layer,
                               struct kva_tensor *tensor, uint64_t *elements, bool *wanted)
{
    int64_t holds = 1;
    enum kva_status status = from->when != NULL ? kva_build_formula(build, from->when, layer, &holds) : KVA_OK;
    *wanted = holds != 0;
    *tensor = (struct kva_tensor){
        .name = from->name, .layer = layer, .role = from->role, .n_dims = from->n_shape, .copies = 1};
    if (status == KVA_OK && *wanted && from->each != NULL) {
        uint32_t copies = 0;
        status = kva_build_count(build, from->each, layer, 0, tensor->name, &copies);
        tensor->copies = copies;
        *wanted = copies > 0;
    }
    if (status != KVA_OK || !*wanted)
        return status;
    tensor->dtype = from->dtype != KVA_DTYPE_NONE ? from->dtype : build->model->dtype;
    if (tensor->dtype == KVA_DTYPE_NONE)
        tensor->dtype = kva_quantization_dtype(build->quantization);
    *elements = 1;
    for (unsigned d = 0; d < from->n_shape; d++) {
        uint32_t dim;
        status = kva_build_count(build, from->shape[d], layer, 1, tensor->name, &dim);
        if (status != KVA_OK)
            return status;
        tensor->dims[d] = dim;
        if (!kva_mul(*elements, dim, elements))
            return kva_build_fail(build, tensor->name, "has more elements than 64 bits can count");
    }
    if (!kva_mul(*elements, kva_dtype_bytes(tensor->dtype), &tensor->bytes) || tensor->bytes == KVA_UNKNOWN)
        return kva_build_fail(build, tensor->name, "has more bytes than 64 bits can count");
    if (!kva_quantization_bytes(build->quantization, build->tensor_prefix, from->name, from->weight_class, tensor))
        return kva_build_fail(build, tensor->name, "has more bytes than 64 bits can count");
    return KVA_OK;
}

// Adds `n` tensors of one size to their class.
static enum kva_status add_to_class(struct kva_build *build, const struct kva_arch_tensor *from,
                                    const struct kva_tensor *tensor, uint64_t elements, uint64_t n)
{
    uint64_t bytes = tensor->bytes;
    if (!kva_mul(n, tensor->copies, &n) || !kva_mul(elements, n, &elements) || !kva_mul(bytes, n, &bytes) ||
        bytes == KVA_UNKNOWN)
        return kva_build_fail(build, tensor->name, "has more bytes in all layers than 64 bits can count");
    return kva_class_add(build, from->weight_class, n, elements, tensor->dtype != KVA_DTYPE_NONE ? bytes : KVA_UNKNOWN);
}

static enum kva_status expand(struct kva_build *build, const struct kva_arch_tensor *from, int32_t layer,
                              struct list *list)
{
    struct kva_tensor tensor;
    uint64_t elements;
    bool wanted;
    if (layer >= 0 && !is_of_kind(from, build->model->layers[layer].kind))
        return KVA_OK;
    enum kva_status status = measure(build, from, layer, &tensor, &elements, &wanted);
    if (status == KVA_OK && wanted)
        status = add_to_class(build, from, &tensor, elements, 1);
    if (status != KVA_OK || !wanted || build->options.no_tensors)
        return status;
    tensor.name = tensor_name(build, from, layer);
    return tensor.name != NULL ? push(build, list, &tensor, from->weight_class) : kva_build_memory(build);
}

static bool is_letter(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Whether a formula can differ from layer to layer: it says `i`, or asks for other layers.
static bool varies(const char *formula)
{
    for (const char *c = formula; c != NULL && *c != '\0';) {
        size_t length = 0;
        while (is_letter(c[length]))
            length++;
        if ((length == 1 && *c == 'i') || (length == 9 && strncmp(c, "last_like", 9) == 0))
            return true;
        c += length > 0 ? length : 1;
    }
    return false;
}

// Whether its size can, or how many of it a layer has; whether a layer has it at all is its `when`.
static bool size_varies(const struct kva_arch_tensor *from)
{
    bool found = varies(from->each);
    for (unsigned d = 0; d < from->n_shape; d++)
        found = found || varies(from->shape[d]);
    return found;
}

// Where a `when` holds: kept from one tensor to the next, since those of one block have the same.
struct held {
    const char *when;
    enum { NOT_ASKED, NO, YES } * layers;
};

static enum kva_status hold(struct kva_build *build, const char *when, struct held *held)
{
    const size_t n = build->model->n_layers;
    if (held->when != NULL && strcmp(held->when, when) == 0)
        return KVA_OK;
    if (held->layers == NULL)
        held->layers = kva_arena_alloc(build->arena, n + 1, sizeof *held->layers);
    if (held->layers == NULL)
        return kva_build_memory(build);
    for (size_t i = 0; i < n; i++)
        held->layers[i] = NOT_ASKED;
    held->when = when;
    return KVA_OK;
}

static enum kva_status ask(struct kva_build *build, struct held *held, size_t layer, bool *holds)
{
    enum kva_status status = KVA_OK;
    int64_t value;
    if (held->layers[layer] == NOT_ASKED) {
        status = kva_build_formula(build, held->when, (int64_t)layer, &value);
        if (status == KVA_OK)
            held->layers[layer] = value != 0 ? YES : NO;
    }
    *holds = held->layers[layer] == YES;
    return status;
}

// The same tensor of every layer that has it, counted without writing the list.
static enum kva_status count_layers(struct kva_build *build, const struct kva_arch_tensor *from, struct held *held)
{
    const struct kva_model *model = build->model;
    const bool asks = varies(from->when);
    struct kva_tensor tensor;
    uint64_t elements, n = 0;
    int32_t layer = -1;
    bool wanted;
    const char *kind = NULL;
    bool is_of_it = false;
    enum kva_status status = asks ? hold(build, from->when, held) : KVA_OK;
    for (size_t i = 0; i < model->n_layers && status == KVA_OK; i++) {
        if (model->layers[i].kind != kind) {
            kind = model->layers[i].kind;
            is_of_it = is_of_kind(from, kind);
        }
        bool has = is_of_it;
        if (is_of_it && asks)
            status = ask(build, held, i, &has);
        layer = has ? (int32_t)i : layer;
        n += has;
    }
    if (status != KVA_OK || n == 0)
        return status;
    status = measure(build, from, layer, &tensor, &elements, &wanted);
    return status == KVA_OK && wanted ? add_to_class(build, from, &tensor, elements, n) : status;
}

static enum kva_status expand_layers(struct kva_build *build, struct list *list)
{
    const struct kva_arch *arch = build->arch;
    enum kva_status status = KVA_OK;
    struct held held = {0};
    for (unsigned t = 0; build->options.no_tensors && t < arch->n_tensors && status == KVA_OK; t++) {
        const struct kva_arch_tensor *from = &arch->tensors[t];
        if (strstr(from->name, "{i}") == NULL)
            continue;
        if (!size_varies(from) && !kva_quantization_varies(build->quantization))
            status = count_layers(build, from, &held);
        else
            for (size_t i = 0; i < build->model->n_layers && status == KVA_OK; i++)
                status = expand(build, from, (int32_t)i, list);
    }
    // layer after layer, as a checkpoint is loaded
    for (size_t i = 0; !build->options.no_tensors && i < build->model->n_layers && status == KVA_OK; i++)
        for (unsigned t = 0; t < arch->n_tensors && status == KVA_OK; t++)
            if (strstr(arch->tensors[t].name, "{i}") != NULL)
                status = expand(build, &arch->tensors[t], (int32_t)i, list);
    return status;
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
    int64_t known = arch->n_tensors > 0;
    enum kva_status status = KVA_OK;
    if (arch->tensors_when != NULL)
        status = kva_build_formula(build, arch->tensors_when, (int64_t)model->n_layers - 1, &known);
    if (status != KVA_OK || known == 0)
        return status;
    struct list list = {0};
    for (unsigned t = 0; t < arch->n_tensors && status == KVA_OK; t++)
        if (strstr(arch->tensors[t].name, "{i}") == NULL)
            status = expand(build, &arch->tensors[t], -1, &list);
    if (status == KVA_OK)
        status = expand_layers(build, &list);
    if (status == KVA_OK && !build->options.no_tensors) {
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
