#include "report/xml.h"

void kva_xml_escaped(struct kva_text *out, const char *text)
{
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&')
            kva_text_printf(out, "&amp;");
        else if (c == '<')
            kva_text_printf(out, "&lt;");
        else if (c == '>')
            kva_text_printf(out, "&gt;");
        else if (c == '"')
            kva_text_printf(out, "&quot;");
        else
            kva_text_add(out, c < ' ' || c >= 0x80 ? "?" : text, 1);
    }
}
