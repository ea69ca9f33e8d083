package confined

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files that the process has from its parent.
const (
	brokerFile = 3 + iota
	answerFile
)

const (
	// nobody is a user and a group that own nothing.
	nobody = 65534
	// mostStack is the most that a thread of the kernel's may have; Go's own are memory like all other.
	mostStack = 8 << 20
	// lowest is the priority of a process that waits for all others.
	lowest = 19
	// first is the score of what the kernel ends first when memory ends.
	first = "1000"
)

// Main is the process: it gives up what it could do, reads its input, works and answers. The context of the work ends
// when the parent wants no more.
func Main(ctx context.Context, work func(ctx context.Context, input []byte, dial Dial) ([]byte, error)) error {
	var limits Limits
	if len(os.Args) != 2 || json.Unmarshal([]byte(os.Args[1]), &limits) != nil {
		return fmt.Errorf("%s runs as a child of a server only", Command)
	}
	answers := os.NewFile(answerFile, "answer")
	runtime.LockOSThread() // which is bound to the parent
	if err := confine(limits); err != nil {
		_, told := answers.WriteString(string(rune(unconfined)) + err.Error())
		return errors.Join(err, told)
	}
	socket, err := connOf(os.NewFile(brokerFile, "broker"))
	if err != nil {
		return fmt.Errorf("%s runs as a child of a server only: %w", Command, err)
	}
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &client{socket: socket, waiting: map[uint64]chan<- answer{}}
	go func() {
		defer cancel() // the parent wants no more, or is gone
		c.read()
	}()
	answer, err := untilAlone(ctx, func() ([]byte, error) { return work(ctx, input, c.dial) })
	begins := []byte{answered}
	if err != nil {
		begins, answer = []byte{failed}, []byte(err.Error())
		answer = answer[:min(int64(len(answer)), limits.Answer)]
	}
	_, err = answers.Write(append(begins, answer...))
	return errors.Join(err, answers.Close())
}

// untilAlone returns what work does, or an error when ctx has ended and the work goes on for longer than its parent
// would let it: then that is gone, and was not seen to go.
func untilAlone(ctx context.Context, work func() ([]byte, error)) ([]byte, error) {
	type result struct {
		answer []byte
		err    error
	}
	done := make(chan result, 1)
	go func() {
		answer, err := work()
		done <- result{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(2 * grace)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-timer.C:
		return nil, errParent
	}
}

// confine gives up what the process could do. Whatever fails ends it.
func confine(limits Limits) error {
	// While there are files: they are kept from then on.
	_, _ = x509.SystemCertPool() // without them, connections by TLS say what is missing
	if err := withoutInherited(); err != nil {
		return fmt.Errorf("closing what it has inherited: %w", err)
	}
	// Of the group, which it is alone in: that of the process would be that of a thread.
	if err := syscall.Setpriority(syscall.PRIO_PGRP, 0, lowest); err != nil {
		return fmt.Errorf("becoming the last to compute: %w", err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(first), 0); err != nil {
		return fmt.Errorf("becoming the first to end: %w", err)
	}
	if err := withoutFiles(); err != nil {
		return fmt.Errorf("giving up files: %w", err)
	}
	for resource, most := range map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: 0, unix.RLIMIT_NOFILE: 512, unix.RLIMIT_STACK: mostStack,
		unix.RLIMIT_CPU: uint64(limits.Processor / time.Second), unix.RLIMIT_DATA: uint64(limits.Memory),
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}); err != nil {
			return fmt.Errorf("bounding resource %d: %w", resource, err)
		}
	}
	// Those of package syscall are for all threads. With the user, all capabilities go.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("giving up groups: %w", err)
	}
	if err := syscall.Setresgid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("giving up the group: %w", err)
	}
	if err := syscall.Setresuid(nobody, nobody, nobody); err != nil {
		return fmt.Errorf("giving up the user: %w", err)
	}
	if err := incapable(); err != nil {
		return err
	}
	// Another user has what the machine says of this.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming nobody's to look at: %w", err)
	}
	// Another user has lost this, which is its thread's: it ends with its parent.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("binding it to its parent: %w", err)
	}
	if err := refuse(); err != nil {
		return fmt.Errorf("giving up calls of the kernel: %w", err)
	}
	return nil
}

// errCapable is a process that keeps capabilities whoever it is.
var errCapable = errors.New("it has capabilities as nobody: the server must not run with securebits")

// incapable reports whether capabilities went with the user.
func incapable() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil {
		return fmt.Errorf("looking at capabilities: %w", err)
	}
	for _, half := range has {
		if half.Effective|half.Permitted != 0 {
			return errCapable
		}
	}
	return nil
}

// withoutInherited closes the files that were open in the server for its children as well, such as those of who
// started it. A directory among them would be a way out. What has no kind of file is of Go's own.
func withoutInherited() error {
	const own = "/proc/self/fd"
	entries, err := os.ReadDir(own)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(own, entry.Name()), err)
		}
		var stat unix.Stat_t
		if fd <= answerFile || unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT == 0 {
			continue // that of the directory is closed
		}
		if err := unix.Close(fd); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(own, entry.Name()), err)
		}
	}
	return nil
}

// withoutFiles leaves the mount namespace, which is its own, with an empty directory that nobody can write to. There
// is nothing to execute either.
func withoutFiles() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	// Any directory that is everywhere.
	const root = "/proc"
	if err := unix.Mount("tmpfs", root, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC,
		"size=4k,nr_inodes=2,mode=0555"); err != nil {
		return err
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	// The former root is on top of the new one.
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}

// client asks the parent for connections.
type client struct {
	socket *net.UnixConn

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan<- answer
	ended   bool
}

// answer is what came for a request.
type answer struct {
	conn net.Conn
	err  error
}

// Errors of a connection.
var (
	errParent = errors.New("the parent makes no connections any more")
	errDial   = errors.New("no connection")
)

// dial implements Dial.
func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	got := make(chan answer, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, errParent
	}
	c.last++
	id := c.last
	c.waiting[id] = got
	c.mu.Unlock()
	data, err := json.Marshal(request{ID: id, Network: network, Address: address})
	if err == nil && len(data) > maxMessage {
		err = fmt.Errorf("%w: the address has %d bytes", errDial, len(address))
	}
	if err == nil {
		_, err = c.socket.Write(data)
	}
	if err != nil {
		c.take(id)
		return nil, err
	}
	select {
	case a := <-got:
		return a.conn, a.err
	case <-ctx.Done():
	}
	if c.take(id) == nil { // it comes at this moment
		if a := <-got; a.conn != nil {
			a.conn.Close() //nolint:errcheck // nobody wants it
		}
	}
	return nil, ctx.Err()
}

// take is who waits for a request, nil for nobody.
func (c *client) take(id uint64) chan<- answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.waiting[id]
	delete(c.waiting, id)
	return waits
}

// read gives answers to those who wait, until the parent is gone.
func (c *client) read() {
	buffer, rights := make([]byte, maxReply), make([]byte, unix.CmsgSpace(4))
	for {
		n, withRights, _, _, err := c.socket.ReadMsgUnix(buffer, rights)
		var r reply
		if err != nil || n == 0 || json.Unmarshal(buffer[:n], &r) != nil {
			break
		}
		conn, err := connIn(rights[:withRights])
		if r.Error != "" || err == nil && conn == nil {
			err = fmt.Errorf("%w: %s", errDial, r.Error)
		}
		if waits := c.take(r.ID); waits != nil {
			waits <- answer{conn, err}
		} else if conn != nil {
			conn.Close() //nolint:errcheck // nobody wants it
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for id, waits := range c.waiting {
		waits <- answer{err: errParent}
		delete(c.waiting, id)
	}
}

// connIn is the connection in the rights of a message, nil if there is none.
func connIn(rights []byte) (net.Conn, error) {
	if len(rights) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errDial, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errDial, err)
	}
	file := os.NewFile(uintptr(fds[0]), "connection")
	defer file.Close() //nolint:errcheck // the connection has one of its own
	return net.FileConn(file)
}
