/* A driver that has been taken over: floe's CPU device with one call replaced. When a client asks for free memory, it tries
   everything an attacker in a worker would, and prints a line for each attempt. A test builds it with the places it knows
   (SECRET, HOME, CACHE, PORT are strings or numbers); nothing of it is in any product.
   "refused": the kernel said no, or floed did. "got through": it did not, whatever came of it. "absent": there is nothing to try here. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void tell(const char *name, const char *outcome) {
    char line[128];
    int length = snprintf(line, sizeof line, "%s: %s\n", name, outcome);
    if (write(1, line, length) != length) _exit(7);
}

/* Judges the call that has just been made. */
static long judge(const char *name, long result) {
    if (result >= 0) tell(name, "got through");
    else if (errno == EPERM || errno == EACCES || errno == ENOSYS) tell(name, "refused");
    else if (errno == ENOENT || errno == ENXIO || errno == ENODEV) tell(name, "absent");
    else tell(name, "got through");
    return result;
}

static void judge_open(const char *name, const char *path, int flags) {
    int file = judge(name, open(path, flags | O_CLOEXEC, 0600));
    if (file >= 0) close(file);
}

static void judge_folder(const char *name, const char *path) {
    DIR *folder = opendir(path);
    judge(name, folder ? 0 : -1);
    if (folder) closedir(folder);
}

static void files(pid_t daemon) {
    char path[256];
    judge_open("read the token", SECRET, O_RDONLY);
    judge_open("read the token through /proc/self/root", "/proc/self/root" SECRET, O_RDONLY);
    judge_open("write the token", SECRET, O_WRONLY);
    judge_open("write authorized_keys", HOME "/.ssh/authorized_keys", O_WRONLY | O_CREAT);
    judge_folder("list the home", HOME);
    judge_folder("list the root", "/");
    judge_folder("list /proc", "/proc");
    judge_open("write to /tmp", "/tmp/floe-hostile-driver", O_WRONLY | O_CREAT);
    judge_open("write to /dev/shm", "/dev/shm/floe-hostile-driver", O_WRONLY | O_CREAT);
    judge_open("make a file in the cache", CACHE "/evil", O_WRONLY | O_CREAT);
    judge_folder("list the cache", CACHE);
    judge("remove the cache", syscall(SYS_renameat2, AT_FDCWD, CACHE, AT_FDCWD, CACHE "-gone", 0));
    judge("remove the token", unlink(SECRET ".copy"));
    judge("link the token", link(SECRET, SECRET ".link"));
    judge("make a link", symlink(SECRET, "/tmp/floe-hostile-link"));
    judge("make a folder", mkdir(HOME "/evil", 0700));
    judge("make a device", mknod("/tmp/floe-hostile-device", S_IFCHR | 0600, 0x101));
    judge("open the token's rights", chmod(SECRET, 0666));
    judge("open a descriptor's rights", fchmod(1, 0666));
    judge_open("read /etc/passwd", "/etc/passwd", O_RDONLY);
    judge_open("read /etc/shadow", "/etc/shadow", O_RDONLY);
    judge_open("open /dev/mem", "/dev/mem", O_RDWR);
    judge_open("open /dev/kmsg", "/dev/kmsg", O_RDWR);
    judge_open("open /dev/kvm", "/dev/kvm", O_RDWR);
    judge_open("open /dev/fuse", "/dev/fuse", O_RDWR);
    judge_open("open a terminal", "/dev/ptmx", O_RDWR);
    judge_open("trigger a reboot", "/proc/sysrq-trigger", O_WRONLY);
    judge_open("change the core pattern", "/proc/sys/kernel/core_pattern", O_WRONLY);
    for (const char *const *name = (const char *const[]){"mem", "environ", "cmdline", "maps", "status", NULL}; *name; name++) {
        char words[64];
        snprintf(path, sizeof path, "/proc/%d/%s", daemon, *name);
        snprintf(words, sizeof words, "read the daemon's %s", *name);
        judge_open(words, path, O_RDONLY);
    }
    snprintf(path, sizeof path, "/proc/%d/fd", daemon);
    judge_folder("list the daemon's descriptors", path);
}

static void processes(pid_t daemon) {
    char *const arguments[] = {"sh", "-c", "exit 0", NULL};
    judge("execve", execve("/nonexistent/sh", arguments, NULL));
    judge("execveat of memory", syscall(SYS_execveat, syscall(SYS_memfd_create, "x", 0), "", arguments, NULL, AT_EMPTY_PATH));
    pid_t child = judge("fork", fork());
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    child = judge("clone a process", syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    child = judge("clone3", syscall(SYS_clone3, NULL, 0));
    judge("unshare a user namespace", unshare(CLONE_NEWUSER));
    judge("unshare a mount namespace", unshare(CLONE_NEWNS));
    judge("enter a namespace", setns(1, 0));
    judge("trace the daemon", ptrace(PTRACE_SEIZE, daemon, 0, 0));
    judge("be traced", ptrace(PTRACE_TRACEME, 0, 0, 0) < 0 ? -1 : 0);
    char byte;
    struct iovec ours = {&byte, 1}, theirs = {&byte, 1};
    judge("read the daemon's memory", process_vm_readv(daemon, &ours, 1, &theirs, 1, 0));
    judge("write the daemon's memory", process_vm_writev(daemon, &ours, 1, &theirs, 1, 0));
    judge("signal the daemon", kill(daemon, 0));
    judge("signal everybody", kill(-1, 0));
    judge("signal the daemon's thread", syscall(SYS_tgkill, daemon, daemon, 0));
    judge("signal by a thread's number", syscall(SYS_tkill, daemon, 0));
    siginfo_t info = {.si_code = SI_QUEUE};
    judge("queue a signal", syscall(SYS_rt_sigqueueinfo, daemon, 0, &info));
    judge("hold the daemon", syscall(SYS_pidfd_open, daemon, 0));
    judge("signal by a descriptor", syscall(SYS_pidfd_send_signal, 1, 0, NULL, 0));
    judge("take the daemon's descriptor", syscall(SYS_pidfd_getfd, 1, 0, 0));
    judge("have a descriptor signal the daemon", fcntl(1, F_SETOWN, daemon));
    judge("limit the daemon", prlimit(daemon, RLIMIT_NOFILE, NULL, &(struct rlimit){0, 0}));
    judge("change its priority", setpriority(PRIO_PROCESS, daemon, 5));
    judge("bind the daemon to a processor", sched_setaffinity(daemon, sizeof(cpu_set_t), &(cpu_set_t){0}));
    /* Whatever sibling there is has a number close to ours. */
    int reached = 0;
    for (pid_t other = daemon + 1; other < daemon + 4000; other++)
        if (other != getpid() && (kill(other, 0) == 0 || ptrace(PTRACE_SEIZE, other, 0, 0) == 0)) reached++;
    tell("reach a sibling", reached ? "got through" : "refused");
}

static void network(void) {
    judge("make a TCP socket", socket(AF_INET, SOCK_STREAM, 0));
    judge("make a TCP socket of version 6", socket(AF_INET6, SOCK_STREAM, 0));
    judge("make a UDP socket", socket(AF_INET, SOCK_DGRAM, 0));
    judge("make a Unix socket", socket(AF_UNIX, SOCK_STREAM, 0));
    judge("make a netlink socket", socket(AF_NETLINK, SOCK_RAW, 0));
    judge("make a packet socket", socket(AF_PACKET, SOCK_RAW, 0));
    judge("make a vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
    judge("make datagram sockets", socketpair(AF_UNIX, SOCK_DGRAM, 0, (int[2]){0, 0}));
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    /* The client's own connection is a socket that is there: another peer for it is as good as a new one. */
    int connected = 0;
    for (int socket = 3; socket < 12; socket++)
        if (connect(socket, (struct sockaddr *)&there, sizeof there) == 0 || errno != EPERM) connected++;
    tell("connect every descriptor", connected ? "got through" : "refused");
    judge("listen", listen(3, 1));
    judge("accept", accept4(3, NULL, NULL, 0));
    judge("send with an address", sendto(1, "x", 1, 0, (struct sockaddr *)&there, sizeof there));
    judge("send and connect at once", sendto(1, "x", 1, MSG_FASTOPEN, NULL, 0));
#ifdef __x86_64__
    judge("make a socket by the x32 numbers", syscall(0x40000000 | SYS_socket, AF_INET, SOCK_STREAM, 0));
#endif
}

static void kernel(void) {
    judge("bpf", syscall(SYS_bpf, 0, NULL, 0));
    judge("keyctl", syscall(SYS_keyctl, 0, 0, 0, 0, 0));
    judge("userfaultfd", syscall(SYS_userfaultfd, 0));
    judge("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
    struct perf_event_attr event = {.size = sizeof event};
    judge("perf events", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
    judge("mount", syscall(SYS_mount, NULL, NULL, NULL, 0, NULL));
    judge("unmount", syscall(SYS_umount2, "/nonexistent", 0));
    judge("change the root", chroot("/"));
    judge("load a module", syscall(SYS_init_module, NULL, 0, ""));
    judge("load a module's file", syscall(SYS_finit_module, 1, "", 0));
    judge("load a kernel", syscall(SYS_kexec_load, 0, 0, NULL, 0));
    judge("set the clock", syscall(SYS_settimeofday, NULL, NULL) == 0 ? 0 : -1);
    judge("set the host's name", syscall(SYS_sethostname, NULL, -1));
    judge("change the personality", syscall(SYS_personality, 0xffffffff));
    judge("become root", setresuid(0, 0, 0));
    judge("become another user", setresuid(12345, 12345, 12345));
    judge("open by a handle", syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0));
    judge("add a filter", syscall(SYS_seccomp, 0, 0, NULL));
    judge("make shared memory", syscall(SYS_shmget, 0, 4096, 0600));
    judge("make a message queue", syscall(SYS_mq_open, "/floe", O_CREAT | O_RDWR, 0600, NULL));
    judge("read the kernel's log", syscall(SYS_syslog, 3, NULL, 0));
}

/* A number that no descriptor can get is as good as a refusal. */
static void judge_number(const char *name, long result) {
    int refused = result < 0 && (errno == EBADF || errno == EINVAL || errno == EMFILE);
    if (refused) tell(name, "refused");
    else judge(name, result);
}

/* The one descriptor over which descriptors may leave is the way to the daemon, at the number that the limit ends at. It is
   not given another meaning: nothing is sent on it here, which would end the worker. */
static void reserved(const struct msghdr *message, int number) {
    int ways[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ways) != 0) return tell("make a pair of sockets", "refused");
    judge_number("put a socket at the reserved number", dup2(ways[0], number));
    judge_number("put a socket there with flags", dup3(ways[0], number, O_CLOEXEC));
    judge_number("duplicate a socket from there on", fcntl(ways[0], F_DUPFD, number));
    judge_number("duplicate it to be closed", fcntl(ways[0], F_DUPFD_CLOEXEC, number));
    judge("raise the limit over it", prlimit(0, RLIMIT_NOFILE, &(struct rlimit){number + 1, number + 1}, NULL));
    /* With every lower number taken, the next would be it. */
    static int taken[4096];
    int count = 0, last = -1;
    while (count < 4096 && (last = dup(ways[0])) >= 0) taken[count++] = last;
    tell("fill all numbers up to it", last < 0 && count > 0 && taken[count - 1] < number ? "refused" : "got through");
    judge("send a descriptor on the highest", count > 0 ? sendmsg(taken[count - 1], message, MSG_DONTWAIT) : (errno = EPERM, -1));
    while (count > 0) close(taken[--count]);
    judge("send a descriptor to the client", sendmsg(3, message, MSG_DONTWAIT));
    judge("send a descriptor by another name of its way", sendmsg(dup(number), message, MSG_DONTWAIT));
    close(ways[0]);
    close(ways[1]);
}

/* What is counted by user, over all of a user's processes, and what keeps others from their files. */
static void shared(void) {
    int ways[2], file = open(LIBRARY, O_RDONLY | O_CLOEXEC);
    struct iovec part = {"x", 1};
    union { struct cmsghdr head; char room[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof file), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control.head), &file, sizeof file);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ways) == 0) {
        judge("send a descriptor", sendmsg(ways[0], &message, MSG_DONTWAIT));
        struct mmsghdr several = {.msg_hdr = message};
        judge("send descriptors", sendmmsg(ways[0], &several, 1, MSG_DONTWAIT));
        close(ways[0]);
        close(ways[1]);
    }
    struct rlimit descriptors;
    getrlimit(RLIMIT_NOFILE, &descriptors);
    tell("have descriptors without end", descriptors.rlim_max <= 4096 ? "refused" : "got through");
    reserved(&message, (int)descriptors.rlim_max);
    judge("raise the limit of descriptors", setrlimit(RLIMIT_NOFILE, &(struct rlimit){1 << 20, 1 << 20}));
    judge("keep others from a file", fcntl(file, F_SETLEASE, F_WRLCK));
    judge("keep others from writing a file", fcntl(file, F_SETLEASE, F_RDLCK));
    judge("hear of what happens in a folder", fcntl(file, F_NOTIFY, DN_MODIFY));
    long flags = 0;
    judge("change a file's flags", ioctl(file, FS_IOC_SETFLAGS, &flags));
    struct fsxattr attributes = {0};
    judge("change a file's attributes", ioctl(file, FS_IOC_FSSETXATTR, &attributes));
    struct fsverity_enable_arg verity = {.version = 1, .hash_algorithm = 1, .block_size = 4096};
    judge("freeze a file", ioctl(file, FS_IOC_ENABLE_VERITY, &verity));
    close(file);
}

/* Takes pages away from memory that others hold too. What the worker's own files may do, no other file gets by their numbers:
   whoever closes one, or puts another there, could. */
static void pages(void) {
    int file = syscall(SYS_memfd_create, "x", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, 1 << 16) != 0) return tell("make memory", "got through");
    char *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memset(mapped, 1, 1 << 16);
    judge("take pages of a mapping", madvise(mapped, 4096, MADV_REMOVE));
    judge("take pages of a file", fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    judge("collapse a file", fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    judge("clear a range of a file", fallocate(file, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, 0, 4096));
    judge("close a file that may", close(1));
    judge("put a file there", dup2(file, 1));
    judge("put a file there with flags", dup3(file, 2, O_CLOEXEC));
    judge("close all files", syscall(SYS_close_range, 900, 901, 0));
    tell("lose a page", mapped[0] == 1 ? "refused" : "got through");
    int own = fallocate(1, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1 << 30, 4096);
    tell("be kept from its own", own == 0 ? "refused" : "got through");
    munmap(mapped, 1 << 16);
    close(file);
}

static void itself(void) {
    judge("allow core dumps", prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    judge("let others trace it", prctl(PR_SET_PTRACER, -1, 0, 0, 0));
    judge("outlive the daemon", prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0));
    judge("keep capabilities", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
    judge("raise the limit of cores", setrlimit(RLIMIT_CORE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}));
    struct rlimit core;
    getrlimit(RLIMIT_CORE, &core);
    tell("make a core dump", core.rlim_max == 0 ? "refused" : "got through");
    tell("find a home or a token", getenv("HOME") || getenv("FLOE_TOKEN_FILE") || getenv("FLOE_SECRET") ? "got through" : "refused");
}

/* Variables of the client's: those that say where code and files are, and the last, which it may set. */
static void variables(void) {
    char words[64];
    for (const char *const *name = (const char *const[]){"LD_PRELOAD", "LD_AUDIT", "CUDA_CACHE_PATH", "PATH", "FLOE_TEST_STAND_AT", "CUDA_MODULE_LOADING", NULL}; *name; name++) {
        snprintf(words, sizeof words, "have the client's %s", *name);
        tell(words, getenv(*name) ? "got through" : "refused");
    }
}

/* What harms nobody where there is no sandbox, so that a test can see these attempts succeed. */
static void harmless(pid_t daemon) {
    char byte, path[64];
    struct iovec ours = {&byte, 1}, theirs = {&byte, 1};
    judge_open("read the token", SECRET, O_RDONLY);
    judge_open("write authorized_keys", HOME "/.ssh/authorized_keys", O_WRONLY | O_CREAT);
    judge_folder("list the cache", CACHE);
    snprintf(path, sizeof path, "/proc/%d/cmdline", daemon);
    judge_open("read the daemon's cmdline", path, O_RDONLY);
    pid_t child = judge("fork", fork());
    if (child == 0) _exit(0);
    if (child > 0) waitpid(child, NULL, 0);
    judge("execve", syscall(SYS_execve, "/nonexistent/sh", NULL, NULL) < 0 && errno == ENOENT ? 0 : -1);
    judge("read the daemon's memory", process_vm_readv(daemon, &ours, 0, &theirs, 0, 0));
    judge("signal the daemon", kill(daemon, 0));
    judge("make a TCP socket", socket(AF_INET, SOCK_STREAM, 0));
}

#ifdef KEEPS_A_THREAD
static sem_t is_apart;

/* While the driver starts, a filter may still be added: one of this thread's own keeps it out of those for all threads. */
static void *apart(void *nothing) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog filter = {1, &allow};
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
    sem_post(&is_apart);
    for (;;) sleep(1);
    return nothing;
}

__attribute__((constructor)) static void keep_a_thread(void) {
    pthread_t thread;
    if (!getenv("FLOE_WORKER_TASK") || sem_init(&is_apart, 0, 0)) return;
    if (pthread_create(&thread, NULL, apart, NULL) == 0) sem_wait(&is_apart);
}
#endif

/* What the worker calls for a client's cuMemGetInfo. */
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    /* The daemon's look at its devices is no session, and has no sandbox. */
    if (getenv("FLOE_WORKER_TASK")) {
        pid_t daemon = getppid();
        variables();
        harmless(daemon);
        /* Without a filter the rest would do what it says. */
        if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 0) {
            tell("everything", "not tried");
            return 999;
        }
        files(daemon);
        processes(daemon);
        network();
        kernel();
        shared();
        pages();
        itself();
        tell("everything", "tried");
        /* A failure has what was printed sent ahead of it. */
        return 999;
    }
    int (*real)(size_t *, size_t *) = (int (*)(size_t *, size_t *))dlsym(RTLD_NEXT, "cuMemGetInfo_v2");
    if (real) return real(free_bytes, total);
    *free_bytes = *total = 1 << 20;
    return 0;
}
