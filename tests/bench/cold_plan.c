// How long one cold `kvatlas plan` takes and how much memory it peaks at, for two policies and for every engine:
// cold_plan BINARY. Prints ratios to the budget (5 ms, 8 MiB) and to a process that does nothing; passes and fails
// nothing. In C, because a child's peak includes what its parent held when it was forked.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REPEATS = 51, BUDGET_MS = 5, BUDGET_MIB = 8 };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median wall time of a command, and its peak resident memory in KiB.
static double measure(const char *const *command, long *peak)
{
    double times[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        const double start = now();
        struct rusage usage;
        int status;
        const pid_t child = fork();
        if (child == 0) {
            const int null = open("/dev/null", O_WRONLY);
            dup2(null, STDOUT_FILENO);
            execv(command[0], (char *const *)command);
            _exit(127);
        }
        if (child < 0 || wait4(child, &status, 0, &usage) != child || status != 0) {
            fprintf(stderr, "cold_plan: %s did not run\n", command[0]);
            exit(1);
        }
        times[i] = now() - start;
        *peak = usage.ru_maxrss;
    }
    qsort(times, REPEATS, sizeof *times, compare);
    return times[REPEATS / 2];
}

int main(int argc, char **argv)
{
    static const char *const MODELS[] = {"microsoft/Phi-4-mini-instruct", "microsoft/Phi-4-mini-flash-reasoning",
                                         "google/gemma-3-27b-it"};
    static const char *const ENGINES[] = {"exact,full", "all"};
    long peak;
    if (argc != 2)
        return 2;
    const char *const nothing[] = {"/bin/true", NULL};
    const double floor = measure(nothing, &peak);
    printf("a process that does nothing: %.2f ms, %.1f MiB\n", floor, (double)peak / 1024);
    for (size_t e = 0; e < sizeof ENGINES / sizeof *ENGINES; e++)
        for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
            const char *const command[] = {argv[1], "plan",     MODELS[i],  "--context",
                                           "128k",  "--engine", ENGINES[e], NULL};
            const double wall = measure(command, &peak), mib = (double)peak / 1024;
            printf("plan %-40s %-10s %5.2f ms: %.2f of the budget, %.1f x nothing; %4.1f MiB: %.2f of the budget\n",
                   MODELS[i], ENGINES[e], wall, wall / BUDGET_MS, wall / floor, mib, mib / BUDGET_MIB);
        }
    return 0;
}
