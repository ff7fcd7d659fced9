// A library that is loaded before the C library (LD_PRELOAD). It stands between a process and the
// files below the directory $DISK_ROOT:
//
// - It records every change of a file or directory in $DISK_RECORD, in the order of the changes.
// - It lets one call fail: $DISK_FAIL is "NUMBER ERRNO". The number counts the calls of write,
//   ftruncate, fsync, fdatasync, rename and link. With ENOSPC, a write first writes one half, and
//   the next write fails.
//
// A record is four numbers and some bytes: what happened, to which inode, an offset, a size or the
// inode of a directory, the number of bytes, and the bytes.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static int record_fd = -1;
static long fail_at, fail_errno, calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void) {
    const char *fail = getenv("DISK_FAIL");
    if (fail) sscanf(fail, "%ld %ld", &fail_at, &fail_errno);
    record_fd = REAL(open)(getenv("DISK_RECORD"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (record_fd < 0) abort();
    root = getenv("DISK_ROOT");
}

static int is_below(const char *path) {
    return root && strncmp(path, root, strlen(root)) == 0;
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Returns 1 if this descriptor is a file or directory below the root, and 2 if it is the file with
// the acknowledgements, which never fails.
static int is_ours(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = root ? readlink(link, path, sizeof path - 1) : -1;
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path) ? 1 + (strcmp(name_of(path), "acknowledged") == 0) : 0;
}

static uint64_t inode_of(int fd) {
    struct stat stat;
    return fstat(fd, &stat) == 0 ? stat.st_ino : 0;
}

static uint64_t inode_at(const char *path) {
    struct stat stat;
    return lstat(path, &stat) == 0 ? stat.st_ino : 0;
}

static uint64_t parent_of(const char *path) {
    char parent[PATH_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash) *slash = 0;
    return inode_at(parent);
}

static void record(char what, uint64_t inode, uint64_t at, const void *bytes, size_t length) {
    uint64_t head[4] = {what, inode, at, length};
    ssize_t (*write_)(int, const void *, size_t) = REAL(write);
    if (write_(record_fd, head, sizeof head) != sizeof head) abort();
    if (length && write_(record_fd, bytes, length) != (ssize_t)length) abort();
}

static void record_name(char what, uint64_t inode, const char *path) {
    record(what, inode, parent_of(path), name_of(path), strlen(name_of(path)));
}

// Records a rename within a directory.
static void record_rename(const char *from, const char *to) {
    char names[2 * NAME_MAX + 2];
    int length = snprintf(names, sizeof names, "%s/%s", name_of(from), name_of(to));
    record('R', inode_at(to), parent_of(to), names, length);
}

// Counts a call. Returns true if it must fail, with errno set.
static int fails(void) {
    if (++calls != fail_at) return 0;
    record('F', 0, 0, NULL, 0);
    errno = fail_errno;
    return 1;
}

static ssize_t write_at(int fd, const void *bytes, size_t length, off64_t at, int moves) {
    pthread_mutex_lock(&lock);
    ssize_t written = -1;
    int ours = is_ours(fd);
    if (ours) {
        if (moves) {
            int appends = fcntl(fd, F_GETFL) & O_APPEND;
            at = lseek64(fd, 0, appends ? SEEK_END : SEEK_CUR);
        }
        if (ours == 1 && fails()) {
            if (fail_errno != ENOSPC || length < 2) goto done;
            length /= 2;
            fail_at++;
        }
        written = moves ? REAL(write)(fd, bytes, length) : REAL(pwrite64)(fd, bytes, length, at);
        if (written > 0) record('W', inode_of(fd), at, bytes, written);
    } else {
        written = moves ? REAL(write)(fd, bytes, length) : REAL(pwrite64)(fd, bytes, length, at);
    }
done:;
    int error = errno;
    pthread_mutex_unlock(&lock);
    errno = error;
    return written;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    return write_at(fd, bytes, length, 0, 1);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    return write_at(fd, bytes, length, at, 0);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    return write_at(fd, bytes, length, at, 0);
}

// Every other call: holds the lock, fails if it is its turn, and records what has succeeded.
#define CHANGE(is_ours, is_counted, on_failure, call, on_success)                                  \
    pthread_mutex_lock(&lock);                                                                     \
    int ours = (is_ours), result;                                                                  \
    if (ours == 1 && (is_counted) && fails()) {                                                         \
        result = -1;                                                                               \
        int error = errno;                                                                         \
        on_failure;                                                                                \
        errno = error;                                                                             \
    } else {                                                                                       \
        result = call;                                                                             \
        int error = errno;                                                                         \
        if (ours && result >= 0) { on_success; }                                                   \
        errno = error;                                                                             \
    }                                                                                              \
    pthread_mutex_unlock(&lock);                                                                   \
    return result

int ftruncate64(int fd, off64_t size) {
    CHANGE(is_ours(fd), 1, , REAL(ftruncate64)(fd, size),
           record('T', inode_of(fd), size, NULL, 0));
}
int ftruncate(int fd, off_t size) { return ftruncate64(fd, size); }

int fsync(int fd) {
    CHANGE(is_ours(fd), 1, record('E', inode_of(fd), 0, NULL, 0), REAL(fsync)(fd),
           record('S', inode_of(fd), 0, NULL, 0));
}
int fdatasync(int fd) {
    CHANGE(is_ours(fd), 1, record('E', inode_of(fd), 0, NULL, 0), REAL(fdatasync)(fd),
           record('S', inode_of(fd), 0, NULL, 0));
}

int rename(const char *from, const char *to) {
    CHANGE(is_below(from), 1, , REAL(rename)(from, to),
           record_rename(from, to));
}
int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags) {
    CHANGE(is_below(to), 1, , REAL(linkat)(from_fd, from, to_fd, to, flags),
           record_name('L', inode_at(to), to));
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlink(const char *path) {
    CHANGE(is_below(path), 0, , REAL(unlink)(path), record_name('U', 0, path));
}
int rmdir(const char *path) {
    CHANGE(is_below(path), 0, , REAL(rmdir)(path), record_name('U', 0, path));
}
int mkdir(const char *path, mode_t mode) {
    CHANGE(is_below(path), 0, , REAL(mkdir)(path, mode), record_name('D', inode_at(path), path));
}

static int open_at(const char *path, int flags, mode_t mode) {
    CHANGE(is_below(path) && (flags & O_CREAT) && inode_at(path) == 0, 0, ,
           REAL(open64)(path, flags, mode), record_name('C', inode_of(result), path));
}
#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;                                  \
        va_end(more);                                                                              \
        int fd = open_at(path, flags, mode);                                                       \
        if (fd >= 0 && flags & O_TRUNC && is_ours(fd)) record('O', inode_of(fd), 0, NULL, 0);      \
        return fd;                                                                                 \
    }
OPEN(open)
OPEN(open64)
