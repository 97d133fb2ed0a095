// How many configs a second `kvatlas plan - --ndjson` plans on one core, and at which peak memory: ndjson BINARY
// MODELS_DIR. The input is every config.json of the catalogue, over and over. Prints ratios to the goal (10,000 a
// second); memory that does not grow with the stream shows in two lengths of it. Passes and fails nothing.
#define _XOPEN_SOURCE 700  // nftw
#define _DEFAULT_SOURCE    // wait4
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GOAL = 10000 };

static FILE *once;  // every config, one a line
static long configs;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static int visit(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info;
    if (type != FTW_F || strcmp(path + where->base, "config.json") != 0)
        return 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    for (int c; (c = getc(file)) != EOF;)
        putc(c == '\n' ? ' ' : c, once);
    putc('\n', once);
    configs++;
    fclose(file);
    return 0;
}

// The catalogue `times` over, ready to be read.
static FILE *repeat(long times)
{
    FILE *file = tmpfile();
    char buffer[1 << 16];
    for (long i = 0; file != NULL && i < times; i++) {
        rewind(once);
        for (size_t got; (got = fread(buffer, 1, sizeof buffer, once)) > 0;)
            fwrite(buffer, 1, got, file);
    }
    if (file == NULL || fflush(file) != 0 || lseek(fileno(file), 0, SEEK_SET) != 0)
        exit(1);
    return file;
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

// Wall time; *cpu: of it, the time that a core worked.
static double run(const char *binary, FILE *in, int out, double *cpu, long *peak)
{
    const double start = now();
    struct rusage usage;
    int status;
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(in), STDIN_FILENO);
        dup2(out, STDOUT_FILENO);
        execl(binary, binary, "plan", "-", "--ndjson", "--context", "4096", (char *)NULL);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) != child || !WIFEXITED(status) || WEXITSTATUS(status) > 1) {
        fprintf(stderr, "ndjson: %s did not run\n", binary);
        exit(1);
    }
    *peak = usage.ru_maxrss;
    *cpu = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    return now() - start;
}

static long count_errors(FILE *out)
{
    long errors = 0;
    char *line = NULL;
    size_t size = 0;
    rewind(out);
    while (getline(&line, &size, out) >= 0)
        errors += strstr(line, "\"kvatlas/error/1\"") != NULL;
    free(line);
    return errors;
}

int main(int argc, char **argv)
{
    static const long LENGTHS[] = {10000, 100000};
    long peak;
    double cpu;
    once = tmpfile();
    if (argc != 3 || once == NULL || nftw(argv[2], visit, 16, FTW_PHYS) != 0 || configs == 0)
        return 2;
    FILE *first = repeat(1), *plans = tmpfile();
    if (plans == NULL)
        return 1;
    run(argv[1], first, fileno(plans), &cpu, &peak);
    printf("%ld configs of the catalogue, %ld of them planned; context 4096, policy exact\n", configs,
           configs - count_errors(plans));
    fclose(first);
    fclose(plans);
    const int null = open("/dev/null", O_WRONLY);
    for (size_t i = 0; i < sizeof LENGTHS / sizeof *LENGTHS; i++) {
        const long times = (LENGTHS[i] + configs - 1) / configs;
        FILE *in = repeat(times);
        const double seconds = run(argv[1], in, null, &cpu, &peak), lines = (double)(times * configs);
        printf(
            "%7.0f lines in %6.2f s: %6.0f configs/s; of one busy core %6.0f configs/s, %.1f of the goal; peak %4.1f "
            "MiB\n",
            lines, seconds, lines / seconds, lines / cpu, lines / cpu / GOAL, (double)peak / 1024);
        fclose(in);
    }
    return 0;
}
