package confined

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// hostile is what a process does that means harm.
func hostile(ctx context.Context, word, about string, dial Dial) ([]byte, error) {
	switch word {
	case "dial":
		_, err := dial(ctx, "tcp", about)
		return nil, errors.Join(err, ctx.Err())
	case "direct":
		_, err := net.DialTimeout("tcp", about, 10*time.Second)
		return nil, err
	case "verify":
		ca, where, _ := strings.Cut(about, "|")
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(ca))
		transport := &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{RootCAs: pool}}
		resp, err := (&http.Client{Transport: transport}).Get(where)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close() //nolint:errcheck // it was read to its end
		return io.ReadAll(resp.Body)
	case "openin":
		fd, err := strconv.Atoi(about)
		if err == nil {
			_, err = unix.Openat(fd, "passwd", unix.O_RDONLY, 0)
		}
		return nil, err
	case "say":
		return nil, say([]byte(about))
	case "flood":
		for {
			err := say([]byte(`{"ID":1}`))
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
				return nil, errors.New("the parent hears no more")
			} else if err != nil {
				return nil, err
			}
		}
	case "crash":
		for used := (syscall.Rusage{}); used.Utime.Nano()+used.Stime.Nano() < 1600*int64(time.Millisecond); {
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
				return nil, err
			}
		}
		panic("crashed")
	}
	return nil, fmt.Errorf("what is %q", word)
}

// say writes what it likes to the parent.
func say(what []byte) error {
	for fd := range 64 {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue
		}
		for {
			_, err := syscall.Write(fd, what)
			if !errors.Is(err, syscall.EAGAIN) {
				return err
			}
		}
	}
	return errors.New("no socket")
}

// more is what the process can do of what is less plain than files.
func more() (can []string) {
	// Pipes, the null device, the socket: what has no kind is Go's own.
	kinds := map[uint32]int{}
	for fd := range 512 {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) == nil {
			kinds[stat.Mode&unix.S_IFMT]++
		}
	}
	delete(kinds, 0)
	if kinds[unix.S_IFIFO] != 3 || kinds[unix.S_IFCHR] != 1 || kinds[unix.S_IFSOCK] != 1 || len(kinds) != 3 {
		can = append(can, fmt.Sprintf("use files of the kinds %v", kinds))
	}
	threads := 0
	for tid := range 1000 {
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(tid)}
		var has [2]unix.CapUserData
		if err := unix.Capget(&header, &has[0]); err != nil {
			continue
		}
		threads++
		if has[0].Effective|has[0].Permitted|has[1].Effective|has[1].Permitted != 0 {
			can = append(can, fmt.Sprintf("use the capabilities %v in thread %d", has, tid))
		}
	}
	if threads < 2 {
		can = append(can, "see no threads")
	}
	if no, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || no != 1 {
		can = append(can, fmt.Sprintf("get privileges: %d, %v", no, err))
	}
	if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
		can = append(can, fmt.Sprintf("be looked at: %d, %v", dumpable, err))
	}
	if nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || nice != 20-lowest {
		can = append(can, fmt.Sprintf("compute before others: %d, %v", nice, err))
	}
	for _, flags := range []uintptr{0, unix.CLONE_NEWUSER} {
		if _, err := syscall.ForkExec("/x", []string{"x"}, &syscall.ProcAttr{
			Sys: &syscall.SysProcAttr{Cloneflags: flags}}); !errors.Is(err, syscall.EPERM) {
			can = append(can, fmt.Sprintf("start programs with %x: %v", flags, err))
		}
	}
	for _, family := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK, unix.AF_VSOCK} {
		if _, err := unix.Socket(family, unix.SOCK_STREAM, 0); !errors.Is(err, syscall.EPERM) {
			can = append(can, fmt.Sprintf("make sockets of family %d: %v", family, err))
		}
	}
	if _, err := unix.MemfdCreate("x", 0); err == nil {
		can = append(can, "make files in memory")
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err == nil {
		can = append(can, "have other namespaces")
	}
	return can
}

// TestHostile: what a process does to its parent ends itself alone, at once, and is called what it is.
func TestHostile(t *testing.T) {
	needsRoot(t)
	// As who started the server could have left it.
	etc, err := syscall.Open("/etc", syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(etc) //nolint:errcheck // it was only read
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, c := range map[string]struct{ input, want string }{
		"a long answer":         {"answer " + strconv.Itoa(10<<20), ErrAnswer.Error()},
		"a directory":           {fmt.Sprintf("openin %d", etc), "bad file descriptor"},
		"a connection":          {"direct " + server.Listener.Addr().String(), "operation not permitted"},
		"garbage":               {"say garbage", ""},
		"an empty message":      {"say ", ""},
		"too many requests":     {"flood", "the parent hears no more"},
		"a crash":               {"crash", "panic: crashed"},
		"text that grows":       {"dial x:1", strings.Repeat("<", 900)},
		"an address that grows": {"dial " + strings.Repeat("<", 340), "the address has 340 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			l := limits()
			l.Processor = 2 * time.Second
			p := Process{Limits: l, Dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New(strings.Repeat("<", 900))
			}}
			_, err := p.Run(t.Context(), []byte(c.input))
			if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("%.1000s, want %q", got, c.want)
			}
			if errors.Is(err, ErrTime) || errors.Is(err, ErrProcessor) {
				t.Errorf("it is called another thing: %v", err)
			}
		})
	}
	t.Run("one that ends at once", func(t *testing.T) {
		for range 100 {
			p := Process{Path: "/bin/false", Limits: limits(), Dial: none}
			if _, err := p.Run(t.Context(), nil); err == nil || errors.Is(err, ErrCannotConfine) {
				t.Fatalf("%v, want how it ended", err)
			}
		}
	})
}

// TestConnectionsOfOtherKinds: a unix socket is handed over, and TLS is verified with the work's certificates.
func TestConnectionsOfOtherKinds(t *testing.T) {
	needsRoot(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	secure := httptest.NewTLSServer(handler)
	defer secure.Close()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	local := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	local.Start()
	defer local.Close()
	var ca bytes.Buffer
	if err := pem.Encode(&ca, &pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}); err != nil {
		t.Fatal(err)
	}
	for input, to := range map[string]net.Addr{
		"get http://example.com/":                  listener.Addr(),
		"verify " + ca.String() + "|" + secure.URL: secure.Listener.Addr(),
	} {
		p := Process{Limits: limits(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, to.Network(), to.String())
		}}
		if got, err := p.Run(t.Context(), []byte(input)); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", to.Network(), got, err)
		}
	}
	p := Process{Limits: limits(), Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", secure.Listener.Addr().String())
	}}
	if _, err := p.Run(t.Context(), []byte("get "+secure.URL)); err == nil ||
		!strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("%v, want that nobody vouches for it", err)
	}
}

// TestUntilAlone: work that goes on without a parent does not keep the process.
func TestUntilAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stop := make(chan struct{})
		defer close(stop)
		if _, err := untilAlone(ctx, func() ([]byte, error) { <-stop; return nil, nil }); !errors.Is(err, errParent) {
			t.Errorf("%v, want %v", err, errParent)
		}
	})
}

// TestProgram: calls that are refused are known on the machine, once each.
func TestProgram(t *testing.T) {
	calls := refused()
	slices.Sort(calls)
	if got := slices.Compact(slices.Clone(calls)); len(got) != len(calls) {
		t.Errorf("%d of %d are twice", len(calls)-len(got), len(calls))
	}
}
