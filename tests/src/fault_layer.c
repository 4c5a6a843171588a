/*
 * Stands between a program and the C library where files are changed: numbers and records the calls, and makes the
 * one that it is told to the last one, or a failing one. Touches no file outside of one directory and no socket.
 *
 * Loaded with LD_PRELOAD. ESCAPEMENT_FAULT_LAYER names a control directory, whose files can change at any time:
 *
 *   below   the directory whose files count; required
 *   phase   a word; calls are numbered from 1 in each phase
 *   rule    "PHASE NUMBER ACTION [on|once] [KIND PATH]", see `struct rule`; with "on" every later call fails as well
 *   full    while it exists, nothing grows: ENOSPC
 *   slow    milliseconds that each sync takes longer
 *   trace   what happened, one line for each call: "PHASE ORDINAL NTH KIND BYTES THREAD PATH", written before the call;
 *           NTH counts the calls of this kind to this path in the phase
 *
 * Everything here is a system call of its own, so that nothing is counted twice. Descriptors 0 to 2 are not files of
 * the program. Calls that change nothing, and memory that is mapped, pass by.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4096
#define WORD_BYTES 64
#define PLACES_MAX 1024

enum action { NONE, KILL_BEFORE, KILL_AFTER, FAIL_IO, FAIL_FULL, SHORT, TORN };

/* Which call, and what becomes of it. Without a kind the number is its ordinal, else that of its kind and path. */
struct rule {
    char phase[WORD_BYTES];
    long number;
    enum action action;
    int on;
    char kind[WORD_BYTES];
    char path[PATH_BYTES];
};

/* How many calls of one kind to one path there were in the phase. */
struct place {
    unsigned long long hash;
    long count;
};

static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;
static char control[PATH_BYTES];
static char below[PATH_BYTES];
static char phase_now[WORD_BYTES];
static long ordinal_now;
static struct place places[PLACES_MAX];
static int n_places;
static int tripped;

/* The text of a control file; -1 where there is none. */
static long read_control(const char *name, char *text, size_t size) {
    char path[PATH_BYTES + WORD_BYTES];
    snprintf(path, sizeof path, "%s/%s", control, name);
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return -1;
    long length = syscall(SYS_read, fd, text, size - 1);
    syscall(SYS_close, fd);
    if (length < 0) return -1;
    text[length] = 0;
    while (length > 0 && text[length - 1] == '\n') text[--length] = 0;
    return length;
}

__attribute__((constructor)) static void begin(void) {
    const char *directory = getenv("ESCAPEMENT_FAULT_LAYER");
    if (directory == NULL) return;
    snprintf(control, sizeof control, "%s", directory);
    if (read_control("below", below, sizeof below) <= 0) {
        static const char text[] = "fault layer: the control directory has no file `below`\n";
        syscall(SYS_write, 2, text, sizeof text - 1);
        syscall(SYS_exit_group, 64);
    }
}

static int counts(const char *path) {
    size_t length = strlen(below);
    return length > 0 && strncmp(path, below, length) == 0 && (path[length] == 0 || path[length] == '/');
}

/* The path behind a descriptor, where it counts. */
static int path_of(int fd, char *path) {
    char link[WORD_BYTES];
    if (below[0] == 0 || fd <= 2) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_BYTES - 1);
    if (length <= 0) return 0;
    path[length] = 0;
    return counts(path);
}

/* A path that is given to a call, made absolute, where it counts. */
static int path_at(int directory, const char *given, char *path) {
    if (below[0] == 0) return 0;
    if (given[0] == '/') {
        snprintf(path, PATH_BYTES, "%s", given);
    } else {
        char base[PATH_BYTES] = "";
        if (directory == AT_FDCWD) {
            if (syscall(SYS_getcwd, base, sizeof base) < 0) return 0;
        } else {
            char link[WORD_BYTES];
            snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
            if (syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1) < 0) return 0;
        }
        if (strlen(base) + strlen(given) + 2 > PATH_BYTES) return 0;
        strcpy(path, base);
        strcat(path, "/");
        strcat(path, given);
    }
    return counts(path);
}

static int exists(int directory, const char *path) {
    return syscall(SYS_faccessat, directory, path, F_OK) == 0;
}

static void read_rule(struct rule *rule) {
    static const char *const words[] = {"none", "kill-before", "kill-after", "EIO", "ENOSPC", "short", "torn"};
    char text[PATH_BYTES + 5 * WORD_BYTES], action[WORD_BYTES] = "", on[WORD_BYTES] = "";
    int path_at = 0;
    memset(rule, 0, sizeof *rule);
    if (read_control("rule", text, sizeof text) <= 0) return;
    const char *format = "%63s %ld %63s %63s %63s %n";
    if (sscanf(text, format, rule->phase, &rule->number, action, on, rule->kind, &path_at) < 3) return;
    if (path_at > 0) snprintf(rule->path, sizeof rule->path, "%s", text + path_at);
    for (int at = 0; at < (int)(sizeof words / sizeof *words); at++)
        if (strcmp(action, words[at]) == 0) rule->action = (enum action)at;
    rule->on = strcmp(on, "on") == 0;
}

/* The number of a call among those of its kind to its path in the phase, from 1; 0 where there are too many. FNV-1a. */
static long nth(const char *kind, const char *path) {
    unsigned long long hash = 0xcbf29ce484222325ULL;
    int at = 0;
    for (const char *c = kind; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ULL;
    hash = (hash ^ ' ') * 0x100000001b3ULL;
    for (const char *c = path; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ULL;
    while (at < n_places && places[at].hash != hash) at++;
    if (at == PLACES_MAX) return 0;
    if (at == n_places) places[n_places++] = (struct place){hash, 0};
    return ++places[at].count;
}

static int is_meant(const struct rule *rule, const char *phase, long number, const char *kind, const char *path) {
    if (rule->action == NONE || strcmp(rule->phase, phase) != 0) return 0;
    if (rule->kind[0] == 0) return rule->number == ordinal_now;
    return rule->number == number && strcmp(rule->kind, kind) == 0 && strcmp(rule->path, path) == 0;
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Numbers and records a call, and says what becomes of it. Kills at once where it is to be killed before it. */
static enum action note(const char *kind, const char *path, long bytes) {
    char phase[WORD_BYTES] = "", line[PATH_BYTES + 4 * WORD_BYTES], thread[17] = "", name[PATH_BYTES + WORD_BYTES];
    struct rule rule;
    enum action action = NONE;
    pthread_mutex_lock(&order);
    read_control("phase", phase, sizeof phase);
    if (strcmp(phase, phase_now) != 0) {
        strcpy(phase_now, phase);
        ordinal_now = 0;
        n_places = 0;
    }
    ordinal_now++;
    long number = nth(kind, path);
    prctl(PR_GET_NAME, thread);
    for (char *at = thread; *at; at++)
        if (*at == ' ') *at = '-';
    const char *format = "%s %ld %ld %s %ld %s %s\n";
    int length = snprintf(line, sizeof line, format, phase, ordinal_now, number, kind, bytes, thread, path);
    snprintf(name, sizeof name, "%s/trace", control);
    long fd = syscall(SYS_openat, AT_FDCWD, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, length);
        syscall(SYS_close, fd);
    }
    read_rule(&rule);
    if (is_meant(&rule, phase, number, kind, path)) {
        action = rule.action;
        tripped = rule.on;
    } else if (tripped) {
        action = rule.action;
    }
    if (action == KILL_BEFORE) die();
    pthread_mutex_unlock(&order);
    return action;
}

/* Ends a call that was made. */
static long done(enum action action, long result) {
    if (action == KILL_AFTER) die();
    return result;
}

static int is_full(void) {
    char text[WORD_BYTES];
    return read_control("full", text, sizeof text) >= 0;
}

static long fail(int number) {
    errno = number;
    return -1;
}

/* The failure of a call that cannot be done in part. */
static int is_failing(enum action action) {
    if (action == FAIL_FULL) errno = ENOSPC;
    if (action == FAIL_IO || action == TORN || action == SHORT) errno = EIO;
    return action >= FAIL_IO;
}

/* `offset` < 0: at the position of the descriptor. */
static long write_at(int fd, const void *bytes, size_t size, off_t offset) {
    return offset < 0 ? syscall(SYS_write, fd, bytes, size) : syscall(SYS_pwrite64, fd, bytes, size, offset);
}

static ssize_t change(const char *kind, int fd, const void *bytes, size_t size, off_t offset) {
    char path[PATH_BYTES];
    struct stat status;
    if (!path_of(fd, path)) return write_at(fd, bytes, size, offset);
    enum action action = note(kind, path, (long)size);
    if (is_full() && fstat(fd, &status) == 0) {
        int appends = offset < 0 && (fcntl(fd, F_GETFL) & O_APPEND);
        off_t from = appends ? status.st_size : offset < 0 ? (off_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) : offset;
        if (from + (off_t)size > status.st_size) return fail(ENOSPC);
    }
    if (action == SHORT && size > 1) return write_at(fd, bytes, size / 2, offset);
    if (action == TORN && size > 1) write_at(fd, bytes, size / 2, offset);
    if (is_failing(action)) return -1;
    return done(action, write_at(fd, bytes, size, offset));
}

static ssize_t change_vector(const char *kind, int fd, const struct iovec *parts, int count, off_t offset) {
    char path[PATH_BYTES];
    size_t size = 0, at = 0;
    if (!path_of(fd, path))
        return offset < 0 ? syscall(SYS_writev, fd, parts, count) : syscall(SYS_pwritev, fd, parts, count, offset, 0L);
    for (int part = 0; part < count; part++) size += parts[part].iov_len;
    char *joined = malloc(size ? size : 1);
    if (joined == NULL) return fail(ENOMEM);
    for (int part = 0; part < count; part++) {
        memcpy(joined + at, parts[part].iov_base, parts[part].iov_len);
        at += parts[part].iov_len;
    }
    ssize_t result = change(kind, fd, joined, size, offset);
    int number = errno;
    free(joined);
    errno = number;
    return result;
}

ssize_t write(int fd, const void *bytes, size_t size) { return change("write", fd, bytes, size, -1); }
ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) { return change("write", fd, bytes, size, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) { return change("write", fd, bytes, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { return change_vector("write", fd, parts, count, -1); }
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) {
    return change_vector("write", fd, parts, count, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) {
    return change_vector("write", fd, parts, count, at);
}

static int synchronise(long number, int fd) {
    char path[PATH_BYTES], text[WORD_BYTES];
    if (!path_of(fd, path)) return (int)syscall(number, fd);
    enum action action = note(number == SYS_fsync ? "fsync" : "fdatasync", path, 0);
    if (read_control("slow", text, sizeof text) > 0) {
        long ms = atol(text);
        struct timespec time = {ms / 1000, ms % 1000 * 1000000};
        nanosleep(&time, NULL);
    }
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(number, fd));
}

int fsync(int fd) { return synchronise(SYS_fsync, fd); }
int fdatasync(int fd) { return synchronise(SYS_fdatasync, fd); }

static int cut(int fd, off_t size) {
    char path[PATH_BYTES];
    struct stat status;
    if (!path_of(fd, path)) return (int)syscall(SYS_ftruncate, fd, size);
    enum action action = note("truncate", path, (long)size);
    if (is_full() && fstat(fd, &status) == 0 && size > status.st_size) return (int)fail(ENOSPC);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_ftruncate, fd, size));
}

int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int allocate(int fd, off_t from, off_t size) {
    char path[PATH_BYTES];
    if (!path_of(fd, path)) return (int)syscall(SYS_fallocate, fd, 0, from, size);
    enum action action = note("allocate", path, (long)size);
    if (is_full()) return (int)fail(ENOSPC);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_fallocate, fd, 0, from, size));
}

int posix_fallocate(int fd, off_t from, off_t size) { return allocate(fd, from, size) == 0 ? 0 : errno; }
int posix_fallocate64(int fd, off64_t from, off64_t size) { return allocate(fd, from, size) == 0 ? 0 : errno; }

static int open_file(int directory, const char *given, int flags, mode_t mode) {
    char path[PATH_BYTES];
    int creates = (flags & O_CREAT) && path_at(directory, given, path) && !exists(directory, given);
    int cuts = !creates && (flags & O_TRUNC) && path_at(directory, given, path);
    if (!creates && !cuts) return (int)syscall(SYS_openat, directory, given, flags, mode);
    enum action action = note(creates ? "create" : "truncate", path, 0);
    if (creates && is_full()) return (int)fail(ENOSPC);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_openat, directory, given, flags, mode));
}

#define OPEN(directory, path, flags)                 \
    mode_t mode = 0;                                 \
    if ((flags) & (O_CREAT | O_TMPFILE)) {           \
        va_list rest;                                \
        va_start(rest, flags);                       \
        mode = va_arg(rest, mode_t);                 \
        va_end(rest);                                \
    }                                                \
    return open_file(directory, path, flags, mode)

int open(const char *path, int flags, ...) { OPEN(AT_FDCWD, path, flags); }
int open64(const char *path, int flags, ...) { OPEN(AT_FDCWD, path, flags | O_LARGEFILE); }
int openat(int directory, const char *path, int flags, ...) { OPEN(directory, path, flags); }
int openat64(int directory, const char *path, int flags, ...) { OPEN(directory, path, flags | O_LARGEFILE); }

int mkdirat(int directory, const char *given, mode_t mode) {
    char path[PATH_BYTES];
    if (!path_at(directory, given, path) || exists(directory, given))
        return (int)syscall(SYS_mkdirat, directory, given, mode);
    enum action action = note("mkdir", path, 0);
    if (is_full()) return (int)fail(ENOSPC);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_mkdirat, directory, given, mode));
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int unlinkat(int directory, const char *given, int flags) {
    char path[PATH_BYTES];
    if (!path_at(directory, given, path)) return (int)syscall(SYS_unlinkat, directory, given, flags);
    enum action action = note("unlink", path, 0);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_unlinkat, directory, given, flags));
}

int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int renameat(int from_directory, const char *from, int to_directory, const char *to) {
    char path[PATH_BYTES];
    if (!path_at(to_directory, to, path))
        return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
    enum action action = note("rename", path, 0);
    if (is_failing(action)) return -1;
    return (int)done(action, syscall(SYS_renameat2, from_directory, from, to_directory, to, 0));
}

int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }
