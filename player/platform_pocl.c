/* Lets PoCL compile for processors that its own compiler does not know. */
#if defined(__linux__) && defined(__x86_64__) && defined(__LP64__) && !defined(__ANDROID__)
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* process_vm_readv */
#endif
#include "platform.h"

#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* PoCL 3.0 asks LLVM 14 for the name of the processor. If LLVM does not know the processor, the
 * name is "generic", and every build then fails with "unknown target CPU 'generic'". No environment
 * variable sets the name. The driver's record of the device points to a copy of it on the heap,
 * which is replaced here by the name of an older processor with the same vector instructions. */
static const char UNKNOWN_CPU[] = "generic";

enum {
    MAX_NAME_BYTES = 24,   /* capacity of the heap block that malloc returns for UNKNOWN_CPU */
    RECORD_WORDS = 256,    /* part of the driver's device record that is searched */
    HEAP_ALIGNMENT = 16,   /* of every block that malloc returns */
    MAX_FLAGS_BYTES = 8192 /* of a line of /proc/cpuinfo */
};

/* Both functions copy through the kernel, which fails where memory is not mapped or read-only. */
static int copy_from(uintptr_t address, void *bytes, size_t size) {
    struct iovec local = {bytes, size}, remote = {(void *)address, size};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static int copy_to(uintptr_t address, char *bytes, size_t size) {
    struct iovec local = {bytes, size}, remote = {(void *)address, size};
    return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

/* Returns the name that LLVM 14 has for a processor with these flags of /proc/cpuinfo. */
static const char *known_cpu(const char *flags) {
    if (strstr(flags, " avx512bw ") != NULL) return "skylake-avx512";
    return strstr(flags, " avx2 ") != NULL ? "haswell" : "x86-64";
}

static const char *read_known_cpu(void) {
    static const char label[] = "flags";
    char line[MAX_FLAGS_BYTES];
    const char *name = known_cpu("");
    FILE *file = fopen("/proc/cpuinfo", "r");
    if (file == NULL) return name;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, label, sizeof label - 1) != 0) continue;
        line[strcspn(line, "\n")] = ' ';
        name = known_cpu(line);
        break;
    }
    fclose(file);
    return name;
}

void ff_name_pocl_cpu(const void *device) {
    uintptr_t record[RECORD_WORDS];
    char name[MAX_NAME_BYTES] = "", current[sizeof UNKNOWN_CPU];
    if (!copy_from((uintptr_t)device, record, sizeof record)) return;
    for (size_t i = 0; i < RECORD_WORDS; i++) {
        if (record[i] < 1 << 16 || record[i] % HEAP_ALIGNMENT != 0) continue;
        if (!copy_from(record[i], current, sizeof current)) continue;
        if (memcmp(current, UNKNOWN_CPU, sizeof current) != 0) continue;
        if (*name == 0) snprintf(name, sizeof name, "%s", read_known_cpu());
        copy_to(record[i], name, strlen(name) + 1);
    }
}
#else
#include "platform.h"

void ff_name_pocl_cpu(const void *device) {
    (void)device;
}
#endif
