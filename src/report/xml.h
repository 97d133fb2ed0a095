// XML pieces of the JUnit writers.
#ifndef KVA_REPORT_XML_H
#define KVA_REPORT_XML_H

#include "base/text.h"

// `text` inside an attribute: what XML or an encoding could take otherwise is replaced.
void kva_xml_escaped(struct kva_text *out, const char *text);

#endif
