#include "report/values.h"

#include "report/words.h"

void kva_page_values(struct kva_page *page, const struct kva_model *model, bool all)
{
    struct kva_table table = kva_page_new_table(page);
    kva_table_column(&table, "name", false);
    kva_table_column(&table, "value", true);
    kva_table_column(&table, all ? "read from" : "because", false);
    for (size_t v = 0; v < model->n_values; v++) {
        if (!all && model->values[v].source == KVA_FROM_CONFIG)
            continue;
        const char *words = kva_value_words(page->arena, &model->values[v]);
        const char *origin = kva_value_origin(page->arena, &model->values[v]);
        if (words == NULL || origin == NULL) {
            table.failed = true;
            break;
        }
        kva_table_cell(&table, "%s", model->values[v].name);
        kva_table_cell(&table, "%s", words);
        kva_table_cell(&table, "%s", origin);
    }
    kva_page_section(page, &table, all ? "Every value" : "Filled in where the config is silent");
}
