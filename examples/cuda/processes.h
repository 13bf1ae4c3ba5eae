// Several processes of one program: forked before CUDA is used, connected by sockets, ended on purpose where a test
// wants to see what is left. What a process is to do comes in; exit codes go out.
// It calls nothing of CUDA, and a process whose neighbour is gone ends with a code of its own.
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

// The exit code of a process whose neighbour has gone.
constexpr int neighbour_gone = 3;
constexpr int most_processes = 8;

// One process's view of all of them.
struct Processes {
    int rank = 0;
    int count = 0;
    int steps = 0;
    // By rank; -1 of its own.
    int sockets[most_processes];

    // A point at which a test may end this process: FLOE_EXAMPLE_DIES=RANK:STEP, counted from 1 in each process.
    void step() {
        ++steps;
        const char *wish = std::getenv("FLOE_EXAMPLE_DIES");
        int who = -1, when = 0;
        if (wish == nullptr || std::sscanf(wish, "%d:%d", &who, &when) != 2) return;
        if (who != rank || when != steps) return;
        std::fflush(stdout);
        kill(getpid(), SIGKILL);
    }

    // A call about something of another process, by its code. In a run in which a test ends one, such a call may find that the
    // other is gone, which is 400 in the runtime and in the driver.
    template <typename Status>
    Status of_other(int other, Status status) const {
        if (static_cast<int>(status) == 400 && std::getenv("FLOE_EXAMPLE_DIES") != nullptr) leave_alone(other);
        return status;
    }

    [[noreturn]] void leave_alone(int other) const {
        std::printf("process %d: process %d is gone\n", rank, other);
        std::fflush(stdout);
        std::exit(neighbour_gone);
    }

    void send(int to, const void *bytes, size_t length) const {
        const char *at = static_cast<const char *>(bytes);
        while (length > 0) {
            const ssize_t sent = ::send(sockets[to], at, length, MSG_NOSIGNAL);
            if (sent <= 0) leave_alone(to);
            at += sent;
            length -= static_cast<size_t>(sent);
        }
    }

    void receive(int from, void *bytes, size_t length) const {
        char *at = static_cast<char *>(bytes);
        while (length > 0) {
            const ssize_t got = recv(sockets[from], at, length, 0);
            if (got <= 0) leave_alone(from);
            at += got;
            length -= static_cast<size_t>(got);
        }
    }

    template <typename T>
    void send(int to, const T &value) const {
        send(to, &value, sizeof(value));
    }

    template <typename T>
    T receive(int from) const {
        T value;
        receive(from, &value, sizeof(value));
        return value;
    }

    // Passes a descriptor on, by the socket itself.
    void send_descriptor(int to, int descriptor) const {
        char byte = 'd', control[CMSG_SPACE(sizeof(int))] = {};
        iovec part = {&byte, 1};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
        if (sendmsg(sockets[to], &message, MSG_NOSIGNAL) != 1) leave_alone(to);
    }

    int receive_descriptor(int from) const {
        char byte = 0, control[CMSG_SPACE(sizeof(int))] = {};
        iovec part = {&byte, 1};
        msghdr message = {};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        if (recvmsg(sockets[from], &message, 0) != 1) leave_alone(from);
        const cmsghdr *header = CMSG_FIRSTHDR(&message);
        int descriptor = -1;
        if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof(int));
        return descriptor;
    }

    // Returns when all processes are here.
    void meet() const {
        for (int other = 0; other < count; ++other)
            if (other != rank) send(other, 'm');
        for (int other = 0; other < count; ++other)
            if (other != rank) receive<char>(other);
    }
};

// As if on a machine of its own, as far as one kernel has several. Who may not do that is root of a namespace of users first.
inline void move_apart() {
    const int apart = CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS;
    if (unshare(apart) == 0 || unshare(apart | CLONE_NEWUSER) == 0) return;
    std::perror("process apart");
    std::exit(1);
}

// Runs `body` in `count` forked processes, each with sockets to all others, and gives this program's exit code: 0 where
// all say 0. Where a test ends one of them, the others must end in order: with 0, or because they miss it.
template <typename Body>
int run_processes(int count, const Body &body) {
    static int pairs[most_processes][most_processes];
    for (int one = 0; one < count; ++one) {
        for (int two = one + 1; two < count; ++two) {
            int ends[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return 1;
            pairs[one][two] = ends[0];
            pairs[two][one] = ends[1];
        }
    }
    // By lines, so that nothing is lost of a process that is ended.
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    std::fflush(stdout);
    pid_t children[most_processes];
    for (int rank = 0; rank < count; ++rank) {
        children[rank] = fork();
        if (children[rank] != 0) continue;
        Processes processes;
        processes.rank = rank;
        processes.count = count;
        for (int one = 0; one < count; ++one) {
            for (int two = 0; two < count; ++two) {
                if (one == two) continue;
                if (one == rank) processes.sockets[two] = pairs[one][two];
                else close(pairs[one][two]);
            }
        }
        processes.sockets[rank] = -1;
        if (std::getenv("FLOE_EXAMPLE_APART") != nullptr) move_apart();
        std::exit(body(processes));
    }
    for (int one = 0; one < count; ++one)
        for (int two = 0; two < count; ++two)
            if (one != two) close(pairs[one][two]);
    const bool one_dies = std::getenv("FLOE_EXAMPLE_DIES") != nullptr;
    int killed = 0, failures = 0;
    for (int rank = 0; rank < count; ++rank) {
        int status = 0;
        if (children[rank] < 0 || waitpid(children[rank], &status, 0) != children[rank]) return 1;
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ++killed;
        else if (code != 0 && !(one_dies && code == neighbour_gone)) {
            ++failures;
            std::printf("process %d ended with: %d\n", rank, WIFEXITED(status) ? code : -WTERMSIG(status));
        }
    }
    if (killed > 0) std::printf("killed: %d\n", killed);
    if (killed != 0 && !one_dies) ++failures;
    std::printf(failures == 0 ? "PASSED\n" : "FAILED\n");
    return failures == 0 ? 0 : 1;
}
