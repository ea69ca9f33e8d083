package hostprep

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// limit is a number of the kernel of which the whole machine, or all processes of a
// user, have one, so that one pod can take what the others need.
type limit struct {
	key     string
	atLeast uint64
	// zeroIsNone is for those where 0 means that there is no limit.
	zeroIsNone bool
}

// limits are raised so far that they are no longer what bounds a pod. The kernel
// charges what is counted here to the memory of the pod, and that has a limit of its
// own (docs/developing/adr/0046-limits-of-the-kernel.md).
var limits = []limit{
	// Events of asynchronous I/O, 64 bytes each, which databases ask for by the
	// hundred thousand.
	{key: "fs/aio-max-nr", atLeast: 1 << 30},
	// As systemd sets it, for the same reason.
	{key: "fs/file-max", atLeast: math.MaxInt64},
	// Of a user, who is root for all pods without a user namespace.
	{key: "fs/inotify/max_user_instances", atLeast: 1 << 24},
	{key: "fs/inotify/max_user_watches", atLeast: 1 << 24},
	// Beyond it, new pipes of the user are small, which makes them slow.
	{key: "fs/pipe-user-pages-soft", atLeast: 1 << 24, zeroIsNone: true},
	// Of a user; each container has a keyring. Keys are charged to nobody, so this
	// is what many pods need and no more. What root may have is the kubelet's to set.
	{key: "kernel/keys/maxkeys", atLeast: 10_000},
	{key: "kernel/keys/maxbytes", atLeast: 2_000_000},
	// The most that there can be. A pod has podPidsLimit of the kubelet.
	{key: "kernel/pid_max", atLeast: 4_194_304},
	// The most that there can be. A container has a part, see embedded/shim.
	{key: "kernel/pty/max", atLeast: 1 << 20},
	// Of a process; search engines and databases map many files.
	{key: "vm/max_map_count", atLeast: 1 << 20},
}

// ownLimits are limits of a user that the kernel keeps in each process, from which
// pods inherit them: queued signals (and timers), and bytes of message queues.
var ownLimits = map[int]string{
	unix.RLIMIT_SIGPENDING: "pending signals",
	unix.RLIMIT_MSGQUEUE:   "bytes in message queues",
}

// raiseLimits raises what is lower than it should be. A machine that does not let
// it, as a container with a read-only /proc/sys, works as far as its limits go.
func (o Options) raiseLimits() {
	var raised, refused []string
	for _, l := range limits {
		name := strings.ReplaceAll(l.key, "/", ".")
		had, err := o.read(l.key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // this kernel, or this namespace, has no such limit
		}
		want := strconv.FormatUint(l.atLeast, 10)
		var low bool
		if err == nil {
			low, err = l.isLow(had)
		}
		if err == nil && !low {
			continue
		}
		if err == nil {
			err = o.write(l.key, want)
		}
		if err != nil {
			refused = append(refused, fmt.Sprintf("%s to %s: %v", name, want, err))
			continue
		}
		raised = append(raised, fmt.Sprintf("%s=%s (was %s)", name, want, had))
	}
	for resource, name := range ownLimits {
		most := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if err := unix.Setrlimit(resource, &most); err != nil {
			refused = append(refused, fmt.Sprintf("the limit of %s: %v", name, err))
		}
	}
	if len(raised) > 0 {
		o.Log.Infof("raised limits of the kernel that pods share: %s", strings.Join(raised, ", "))
	}
	if len(refused) > 0 {
		o.Log.Infof("cannot raise limits of the kernel that pods share, which a pod may exhaust for all: %s",
			strings.Join(refused, "; "))
	}
}

func (l limit) isLow(had string) (bool, error) {
	n, err := strconv.ParseUint(had, 10, 64)
	if err != nil {
		return false, err
	}
	return n < l.atLeast && (n != 0 || !l.zeroIsNone), nil
}

// raisedByOthers says whether a limit has a value that is not Prepare's: whoever set
// it since knows better than the record.
func raisedByOthers(key, now string) bool {
	for _, l := range limits {
		if l.key == key {
			return now != strconv.FormatUint(l.atLeast, 10)
		}
	}
	return false
}
