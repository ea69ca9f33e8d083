package confined

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// parentOfOne has this program be the parent of a confined process that sleeps.
const parentOfOne = "A4S_TEST_PARENT_OF_ONE"

// TestMain is also the confined process, and a parent that is killed.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == Command {
		if err := Main(context.Background(), tasks); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(parentOfOne) != "" {
		p := Process{Limits: limits(), Dial: none}
		_, err := p.Run(context.Background(), []byte("announce"))
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func limits() Limits {
	l := Limits{Memory: 256 << 20, Processor: 20 * time.Second, Time: time.Minute, Answer: 64 << 10, Connections: 20}
	if raceDetector() {
		l.Memory = 1 << 46 // its tables are terabytes that it never touches
	}
	return l
}

// raceDetector reports whether this program looks for races.
func raceDetector() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

func none(context.Context, string, string) (net.Conn, error) { return nil, errNone }

var errNone = errors.New("there is none")

// sink keeps what is made from being left out.
var sink any

// tasks are what the tests have the process do: a word and what it is about.
func tasks(ctx context.Context, input []byte, dial Dial) ([]byte, error) {
	word, about, _ := strings.Cut(string(input), " ")
	switch word {
	case "echo":
		return []byte(about), nil
	case "length":
		return []byte(strconv.Itoa(len(input))), nil
	case "fail":
		return nil, errors.New(about)
	case "answer":
		n, err := strconv.Atoi(about)
		return bytes.Repeat([]byte("x"), n), err
	case "memory":
		var all [][]byte
		for {
			all = append(all, bytes.Repeat([]byte("x"), 1<<20))
			sink = all
		}
	case "once":
		sink = make([]int, 1<<30)
	case "stack":
		return []byte(strconv.Itoa(deeper([1 << 10]byte{}))), nil
	case "loop":
		for n := 0; ; n++ {
			sink = n
		}
	case "sleep":
		select {}
	case "waits":
		<-ctx.Done()
		return nil, ctx.Err()
	case "announce":
		// Those who look for it find it by this.
		for n := 0; ctx.Err() == nil; n++ {
			time.Sleep(time.Millisecond)
		}
		select {}
	case "walls":
		return []byte(strings.Join(walls(), "\n")), nil
	case "get":
		client := &http.Client{Transport: &http.Transport{DialContext: dial}}
		resp, err := client.Get(about)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close() //nolint:errcheck // it was read to its end
		return io.ReadAll(resp.Body)
	case "anew":
		return anew(ctx, dial, about)
	case "dials":
		for n := range 30 {
			conn, err := dial(ctx, "tcp", about)
			if err != nil {
				return []byte(strconv.Itoa(n)), err
			}
			conn.Close() //nolint:errcheck // it was only made
		}
		return nil, nil
	}
	return hostile(ctx, word, about, dial)
}

// anew is what the process can do with a connection that it was given, and should not be able to.
func anew(ctx context.Context, dial Dial, address string) ([]byte, error) {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close() //nolint:errcheck // it was only to be there
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var can []string
	could := func(what string, err error) {
		if !errors.Is(err, unix.EPERM) {
			can = append(can, fmt.Sprintf("%s: %v", what, err))
		}
	}
	err = raw.Control(func(fd uintptr) {
		loopback := &unix.SockaddrInet4{Port: 6443, Addr: [4]byte{127, 0, 0, 1}}
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, fd, 0, 0)
		could("connect it", errno)
		could("bind it", unix.Bind(int(fd), loopback))
		could("listen at it", unix.Listen(int(fd), 1))
		could("send by it", unix.Sendto(int(fd), []byte("x"), 0, loopback))
		could("send files by it", unix.Sendmsg(int(fd), []byte("x"), nil, nil, 0))
		_, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		could("ask about it", err)
	})
	_, mapped := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	could("share memory", mapped)
	_, _, errno := unix.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
	could("make a process", errno)
	return []byte(strings.Join(can, "; ")), err
}

// deeper needs a stack that has no end.
func deeper(of [1 << 10]byte) int {
	if of[0]++; sink == nil {
		return deeper(of) + int(of[1])
	}
	return 0
}

// walls are what the process can do, and should not be able to.
func walls() (can []string) {
	could := func(what string, err error) {
		if err == nil {
			can = append(can, what)
		}
	}
	for _, path := range []string{"/etc/passwd", "/proc/self/status", "/proc/1/environ", "/dev/null", "/sys",
		"/../etc/passwd", "/usr"} {
		_, err := os.Stat(path)
		could("see "+path, err)
	}
	if entries, err := os.ReadDir("/"); err != nil || len(entries) > 0 {
		can = append(can, fmt.Sprintf("have a directory with %v, %v", entries, err))
	}
	for _, path := range []string{"/x", "x", os.TempDir() + "/x"} {
		could("make "+path, os.WriteFile(path, nil, 0o600))
	}
	could("make a directory", os.Mkdir("/d", 0o700))
	if links, err := net.Interfaces(); err == nil {
		for _, link := range links {
			if link.Flags&net.FlagUp != 0 {
				can = append(can, "use the link "+link.Name)
			}
		}
	}
	could("become root", syscall.Setresuid(0, 0, 0))
	could("become root's group", syscall.Setresgid(0, 0, 0))
	could("mount", unix.Mount("tmpfs", "/", "tmpfs", 0, ""))
	could("leave the root", unix.Chroot("/"))
	could("have another name", unix.Sethostname([]byte("x")))
	endless := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	could("have more memory", unix.Setrlimit(unix.RLIMIT_DATA, &endless))
	could("signal somebody else", syscall.Kill(-1, 0))
	could("trace", syscall.PtraceAttach(1))
	if os.Getuid() != nobody || os.Geteuid() != nobody || os.Getgid() != nobody || os.Getegid() != nobody {
		can = append(can, fmt.Sprintf("be %d, %d", os.Getuid(), os.Getgid()))
	}
	if groups, err := os.Getgroups(); err != nil || len(groups) > 0 {
		can = append(can, fmt.Sprintf("have the groups %v, %v", groups, err))
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var has [2]unix.CapUserData
	if err := unix.Capget(&header, &has[0]); err != nil || has != [2]unix.CapUserData{} {
		can = append(can, fmt.Sprintf("use the capabilities %v, %v", has, err))
	}
	can = append(can, more()...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GO") && !strings.HasPrefix(variable, "SSL_CERT_") {
			can = append(can, "read "+variable)
		}
	}
	if pool, err := x509.SystemCertPool(); err != nil || pool.Equal(x509.NewCertPool()) {
		can = append(can, fmt.Sprintf("verify nobody: %v", err))
	}
	return can
}

func needsRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to make namespaces")
	}
}

// TestRun: what the work answers is what Run returns, and nothing is left of it.
func TestRun(t *testing.T) {
	needsRoot(t)
	files := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	p := Process{Limits: limits(), Dial: none}
	run := func(input string) (string, error) {
		answer, err := p.Run(t.Context(), []byte(input))
		return string(answer), err
	}
	if got, err := run("echo hello"); err != nil || got != "hello" {
		t.Fatalf("%q, %v", got, err)
	}
	goroutines, open := runtime.NumGoroutine(), files()
	var work *WorkError
	if _, err := run("fail for a reason"); !errors.As(err, &work) || work.Text != "for a reason" {
		t.Errorf("an error of the work: %v", err)
	}
	if got, err := run("length " + strings.Repeat("x", 8<<20)); err != nil || got != strconv.Itoa(7+8<<20) {
		t.Errorf("8 MiB of input: %s, %v", got, err)
	}
	if got, err := run("answer 65536"); err != nil || len(got) != 65536 {
		t.Errorf("an answer of 64 KiB: %d, %v", len(got), err)
	}
	if _, err := run("answer 65537"); !errors.Is(err, ErrAnswer) {
		t.Errorf("a longer one: %v", err)
	}
	if got, err := run("walls"); err != nil || got != "" {
		t.Errorf("it can %s, %v", got, err)
	}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true,
		func(context.Context) (bool, error) {
			return runtime.NumGoroutine() <= goroutines && files() <= open, nil
		},
	); err != nil {
		t.Errorf("%d goroutines and %d files are left, after %d and %d", runtime.NumGoroutine(), files(), goroutines,
			open)
	}
}

// TestLimits: what takes too much is ended, and says of what.
func TestLimits(t *testing.T) {
	needsRoot(t)
	for name, c := range map[string]struct {
		input  string
		change func(*Limits)
		want   error
	}{
		"much memory":         {"memory", func(*Limits) {}, ErrMemory},
		"much memory at once": {"once", func(*Limits) {}, ErrMemory},
		"a deep stack":        {"stack", func(*Limits) {}, ErrMemory},
		"a loop":              {"loop", func(l *Limits) { l.Processor = time.Second }, ErrProcessor},
		"sleep":               {"sleep", func(l *Limits) { l.Time = time.Second }, ErrTime},
		"waiting":             {"waits", func(l *Limits) { l.Time = time.Second }, ErrTime},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == ErrMemory && raceDetector() {
				t.Skip("the race detector needs more memory than there is")
			}
			t.Parallel()
			p := Process{Limits: limits(), Dial: none}
			c.change(&p.Limits)
			if _, err := p.Run(t.Context(), []byte(c.input)); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	t.Run("the end of the caller", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		p := Process{Limits: limits(), Dial: func(context.Context, string, string) (net.Conn, error) {
			cancel()
			return nil, errNone
		}}
		if _, err := p.Run(ctx, []byte("get http://x")); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
	t.Run("no program", func(t *testing.T) {
		p := Process{Path: "/nowhere", Limits: limits(), Dial: none}
		if _, err := p.Run(t.Context(), nil); !errors.Is(err, ErrCannotConfine) {
			t.Errorf("%v", err)
		}
	})
}

// copiedConn hides what a connection is.
type copiedConn struct{ net.Conn }

// TestConnections: the parent makes connections of every kind, says why there is none, and makes no more than it may.
func TestConnections(t *testing.T) {
	needsRoot(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello to %s", r.Host)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	var dialer net.Dialer
	asked := make(chan string, 100)
	kinds := map[string]Dial{
		"tcp": func(ctx context.Context, network, where string) (net.Conn, error) {
			asked <- network + " " + where
			return dialer.DialContext(ctx, "tcp", address)
		},
		"copied": func(ctx context.Context, network, where string) (net.Conn, error) {
			asked <- network + " " + where
			conn, err := dialer.DialContext(ctx, "tcp", address)
			return copiedConn{conn}, err
		},
	}
	for name, dial := range kinds {
		p := Process{Limits: limits(), Dial: dial}
		answer, err := p.Run(t.Context(), []byte("get http://example.com"))
		if err != nil || string(answer) != "hello to example.com" {
			t.Fatalf("%s: %q, %v", name, answer, err)
		}
		if got := <-asked; got != "tcp example.com:80" {
			t.Errorf("%s was asked for", got)
		}
	}
	p := Process{Limits: limits(), Dial: kinds["tcp"]}
	if can, err := p.Run(t.Context(), []byte("anew x:1")); err != nil || len(can) > 0 {
		t.Errorf("it can %s, %v", can, err)
	}
	p.Dial = none
	if _, err := p.Run(t.Context(), []byte("get http://example.com")); err == nil ||
		!strings.Contains(err.Error(), errNone.Error()) {
		t.Errorf("none: %v", err)
	}
	// Without the parent it reaches nothing.
	p.Dial = kinds["tcp"]
	if _, err := p.Run(t.Context(), []byte("dials x:1")); err == nil ||
		!strings.Contains(err.Error(), "20 connections are the most") {
		t.Errorf("more than it may have: %v", err)
	}
	if _, err := p.Run(t.Context(), []byte("dials "+strings.Repeat("x", 4<<10))); err == nil ||
		!strings.Contains(err.Error(), "the address has") {
		t.Errorf("a long address: %v", err)
	}
}

// TestEndsWithItsParent: nothing is left when its parent was killed.
func TestEndsWithItsParent(t *testing.T) {
	needsRoot(t)
	parent := exec.Command("/proc/self/exe")
	parent.Env = append(os.Environ(), parentOfOne+"=1")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	child := 0
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			child = childOf(t, parent.Process.Pid)
			// It is another user's when it is ready.
			info, err := os.Stat(fmt.Sprintf("/proc/%d/status", child))
			if child == 0 || err != nil {
				return false, nil
			}
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", child))
			return err == nil && info != nil && strings.Contains(string(status), "\nUid:\t65534\t65534\t65534"), nil
		}); err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // it was killed
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) {
			stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
			// What nobody waits for is a zombie in some containers.
			return err != nil || strings.Contains(string(stat), ") Z "), nil
		}); err != nil {
		t.Errorf("process %d is left", child)
		_ = syscall.Kill(child, syscall.SIGKILL)
	}
}

// childOf is the confined process of a parent, 0 if there is none.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil {
				return pid
			}
		}
	}
	return 0
}

// TestBrokerEndsWithGarbage: a process that writes no requests gets nothing, and its parent has nothing of it.
func TestBrokerEndsWithGarbage(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "x", "long": strings.Repeat("x", maxMessage+1)} {
		ours, theirs, err := pair(unix.SOCK_SEQPACKET)
		if err != nil {
			t.Fatal(err)
		}
		b := serve(t.Context(), ours, none, 10)
		if _, err := theirs.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if n, err := theirs.Read(make([]byte, 10)); n > 0 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		b.close()
		theirs.Close() //nolint:errcheck // it was only to be there
	}
}

// TestBrokerOfOneThatDoesNotRead: a process that asks and reads no answers keeps nothing up.
func TestBrokerOfOneThatDoesNotRead(t *testing.T) {
	ours, theirs, err := pair(unix.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close() //nolint:errcheck // it was only to be there
	b := serve(t.Context(), ours, none, 1<<20)
	if err := syscall.SetNonblock(int(theirs.Fd()), true); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		if _, err := syscall.Write(int(theirs.Fd()), []byte(`{"ID":1,"Network":"tcp","Address":"x:1"}`)); err != nil {
			break // it takes no more
		}
	}
	b.close()
}

// BenchmarkRun is a process that does nothing.
func BenchmarkRun(b *testing.B) {
	needsRoot(b)
	p := Process{Limits: limits(), Dial: none}
	for b.Loop() {
		if _, err := p.Run(b.Context(), []byte("echo x")); err != nil {
			b.Fatal(err)
		}
	}
}
