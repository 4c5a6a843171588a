/*
 * Stands between a program and its wall clock, and sets it off. The monotonic clock is left alone.
 *
 * Loaded with LD_PRELOAD. ESCAPEMENT_CLOCK_LAYER names a file of eight bytes: by how many seconds the clock is off, a
 * signed integer in the order of this machine. It is mapped once, so that the clock jumps as soon as it is written, for
 * all threads at the same time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *off_s;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("ESCAPEMENT_CLOCK_LAYER");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *off_s, PROT_READ, MAP_SHARED, fd, 0);
    // A test whose clock never jumps would say nothing.
    if (mapped == MAP_FAILED) abort();
    close(fd);
    off_s = mapped;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && off_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *off_s;
    return failed;
}
