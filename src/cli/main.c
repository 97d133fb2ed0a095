// kvatlas: dispatch.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cli.h"

#define BIT(flag) KVA_FLAG_BIT(KVA_FLAG_##flag)
#define RESULT (BIT(FORMAT) | BIT(OUTPUT) | BIT(DATA) | BIT(NO_COLOR))
#define READ (BIT(DTYPE) | BIT(DEPTH) | BIT(FETCH) | BIT(ASSUME))
#define RUN                                                                                                            \
    (BIT(BACKEND) | BIT(DTYPE) | BIT(ENGINE) | BIT(CONTEXT) | BIT(SEQUENCES) | BIT(WEIGHTS) | BIT(SEED) | BIT(CHUNK) | \
     BIT(NO_PRUNE) | BIT(DEPTH) | BIT(PROMPT_LENGTH) | BIT(DECODE) | BIT(REFERENCE) | BIT(PLAN))

static const struct kva_command COMMANDS[] = {
    {"show", "MODEL", "what each layer caches, and why", RESULT | READ | BIT(WHY), 1, 1, kva_cli_show},
    {"plan", "MODEL", "need, allocated, overpay and sharing saved, under any engines",
     RESULT | READ | BIT(DEPLOYMENT) | BIT(ENGINE) | BIT(LAYERS) | BIT(NDJSON) | BIT(DECODE_COST), 1, 1, kva_cli_plan},
    {"explain", "MODEL", "the formula of every number, with references", RESULT | READ | BIT(DEPLOYMENT) | BIT(ENGINE),
     1, 1, kva_cli_explain},
    {"fit", "MODEL", "does it fit on a GPU, what is the most that does, and what would make it fit",
     RESULT | READ | BIT(DEPLOYMENT) | BIT(ENGINE) | BIT(SWEEP) | BIT(CONTEXTS), 1, 1, kva_cli_fit},
    {"run", "MODEL", "execute it: predicted and measured side by side",
     RESULT | RUN | BIT(TOKENS) | BIT(PREFILL) | BIT(LOGITS) | BIT(PROFILE) | BIT(LAYERS), 1, 1, kva_cli_run},
    {"verify", "[SUITE|MODEL...]", "run and compare, for CI",
     RESULT | RUN | BIT(TOKENS) | BIT(PREFILL) | BIT(JSON) | BIT(JUNIT), 0, SIZE_MAX, kva_cli_verify},
    {"check", "LOG", "an engine's startup log against the plan, for CI",
     RESULT | READ | BIT(DEPLOYMENT) | BIT(ENGINE) | BIT(MODEL) | BIT(JSON) | BIT(JUNIT), 1, 1, kva_cli_check},
    {"engines", "[ENGINE]", "the engines, their versions, and how one of them behaves", RESULT, 0, 1, kva_cli_engines},
    {"gpus", "[QUERY]", "the accelerators that --gpu names", RESULT, 0, 1, kva_cli_gpus},
    {"models", "[QUERY]", "the catalogue: real models by name, family and type", RESULT | BIT(FAMILY) | BIT(TYPE), 0, 1,
     kva_cli_models},
};
static const size_t N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS;

static int print(struct kva_text *text)
{
    struct kva_error error = {0};
    enum kva_status status = kva_cli_write(&(struct kva_options){0}, text, &error);
    kva_text_free(text);
    return status == KVA_OK ? 0 : kva_cli_fail(&error);
}

static void describe(struct kva_text *text)
{
    kva_text_printf(text,
                    "kvatlas says how many bytes of cache a language model needs, how many an engine allocates for\n"
                    "it, and whether that is what happens when the model runs.\n\nUsage: kvatlas COMMAND ...\n\n");
    for (size_t c = 0; c < N_COMMANDS; c++)
        kva_text_printf(text, "  %-8s %-17s %s\n", COMMANDS[c].name, COMMANDS[c].arguments, COMMANDS[c].help);
    kva_text_printf(text,
                    "\nMODEL is a config.json, a directory that holds one, - for standard input, a name of the\n"
                    "catalogue (kvatlas models) such as microsoft/Phi-4-mini-instruct, or the id of a model in the\n"
                    "local Hugging Face cache, ID or ID@REVISION. kvatlas COMMAND --help lists a command's flags.\n\n"
                    "Exit status: 0 fits or matches; 1 does not; 2 usage or bad input; 3 not known to kvatlas;\n"
                    "4 the machine could not do it.\n");
}

static int help_command(const struct kva_command *command)
{
    struct kva_text text = {0};
    kva_text_printf(&text, "Usage: kvatlas %s %s [FLAGS]\n\n%s\n\n", command->name, command->arguments, command->help);
    kva_options_help(command->flags, &text);
    return print(&text);
}

static const struct kva_command *find(const char *name)
{
    for (size_t c = 0; c < N_COMMANDS; c++)
        if (strcmp(COMMANDS[c].name, name) == 0)
            return &COMMANDS[c];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[sizeof COMMANDS / sizeof *COMMANDS];
    struct kva_error error;
    for (size_t c = 0; c < N_COMMANDS; c++)
        names[c] = COMMANDS[c].name;
    const char *nearest = kva_nearest(name, names, N_COMMANDS);
    if (nearest != NULL)
        (void)kva_fail(&error, KVA_BAD_INPUT, NULL, name, "no such command; did you mean %s?", nearest);
    else
        (void)kva_fail(&error, KVA_BAD_INPUT, NULL, name, "no such command; kvatlas --help lists them");
    return kva_cli_fail(&error);
}

int main(int argc, char **argv)
{
    struct kva_text text = {0};
    const char *name = argc > 1 ? argv[1] : "--help";
    if (strcmp(name, "--version") == 0) {
        kva_text_printf(&text, "kvatlas %s\n", KVATLAS_VERSION);
        return print(&text);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || (strcmp(name, "help") == 0 && argc == 2)) {
        describe(&text);
        return print(&text);
    }
    bool help = strcmp(name, "help") == 0;
    const struct kva_command *command = find(help ? argv[2] : name);
    if (command == NULL)
        return unknown_command(help ? argv[2] : name);
    struct kva_options options = {0};
    struct kva_error error;
    enum kva_status status = help ? KVA_OK : kva_options_parse(command, argc - 2, argv + 2, &options, &help, &error);
    if (help)
        return help_command(command);
    if (status != KVA_OK)
        return kva_cli_fail(&error);
    if (options.data == NULL)
        options.data = getenv("KVATLAS_DATA");
    if (options.data != NULL && options.data[0] == '\0')
        options.data = NULL;
    int exit_status = command->function(&options);
    kva_options_free(&options);
    return exit_status;
}
