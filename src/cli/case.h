// A run as the flags say it: what run and verify share.
#ifndef KVA_CLI_CASE_H
#define KVA_CLI_CASE_H

#include "cli/options.h"

struct kva_case kva_cli_case(const struct kva_options *options, const char *model);
// run executes one policy. Errors: KVA_BAD_INPUT when several were given.
enum kva_status kva_cli_one_policy(const struct kva_options *options, struct kva_error *error);
// Takes a progress line off the terminal.
void kva_cli_progress_end(void);

#endif
