package confined

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errArchitecture is one whose calls have other numbers.
var errArchitecture = errors.New("its calls are not known")

// refused are calls of the kernel that neither Go nor the work has a use for: ways to other programs and processes, to
// networks that are not the namespace's, to namespaces in which nobody is root, to memory that no limit counts, and to
// what the kernel runs for a process. A connection that was handed over is of the parent's network: it is read,
// written and closed, and never connected anew.
func refused() []uint32 {
	calls := []uint32{
		unix.SYS_CONNECT, unix.SYS_BIND, unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SENDTO,
		unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_IOCTL, unix.SYS_SHMGET, unix.SYS_SEMGET, unix.SYS_MSGGET,
		unix.SYS_MQ_OPEN, unix.SYS_MREMAP, unix.SYS_SYSLOG,
		unix.SYS_EXECVE, unix.SYS_EXECVEAT, unix.SYS_MEMFD_CREATE, unix.SYS_SOCKET, unix.SYS_PTRACE, unix.SYS_KCMP,
		unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_UNSHARE, unix.SYS_SETNS,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT,
		unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN,
		unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL, unix.SYS_IO_URING_SETUP, unix.SYS_USERFAULTFD,
	}
	if runtime.GOARCH == "amd64" {
		calls = append(calls, fork, vfork)
	}
	return calls
}

const (
	// Where the kernel has the number of a call, the architecture, and the lower half of the first argument.
	callAt, archAt, firstAt = 0, 4, 16
	// fourthAt is where the flags of mmap are.
	fourthAt = firstAt + 3*8
	// fork and vfork are calls that amd64 alone has.
	fork, vfork = 57, 58
	// otherNumbers is the first number of those that 32-bit pointers have on amd64.
	otherNumbers = 1 << 30
	// namespaces are the flags of clone for new ones.
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
)

// refuse has the kernel refuse calls, to all threads and for good. With that no thread gets a privilege any more.
func refuse() error {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("%w: %s", errArchitecture, runtime.GOARCH)
	}
	filter := program(arch)
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	bpf := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	other, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&bpf)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	if other != 0 {
		return fmt.Errorf("thread %d: %w", other, unix.EBUSY)
	}
	return nil
}

// program is the filter in the kernel's language. Most jumps are over one instruction.
func program(arch uint32) []unix.SockFilter {
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(how uint16, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | how, K: k, Jf: 1}
	}
	end := func(with uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: with}
	}
	no := end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	p := []unix.SockFilter{
		load(archAt), {Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: arch, Jt: 1}, no,
		load(callAt), unless(unix.BPF_JGE, otherNumbers), no,
	}
	for _, call := range refused() {
		p = append(p, unless(unix.BPF_JEQ, call), no)
	}
	// Its flags are in memory, which a filter does not see: libc makes threads by the older one then.
	p = append(p, unless(unix.BPF_JEQ, unix.SYS_CLONE3), end(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)))
	return append(p,
		// Memory that is shared is not counted, nor a stack.
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: unix.SYS_MMAP, Jf: 3},
		load(fourthAt), unless(unix.BPF_JSET, unix.MAP_SHARED|unix.MAP_GROWSDOWN), no,
		load(callAt),
		// Threads alone are made.
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: unix.SYS_CLONE, Jf: 4},
		load(firstAt), unless(unix.BPF_JSET, namespaces), no,
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JSET, K: unix.CLONE_THREAD, Jf: 1},
		end(unix.SECCOMP_RET_ALLOW), no)
}
