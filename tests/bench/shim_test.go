package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/a4s-io/a4s/embedded/payload"
)

// BenchmarkShimStart compares what a pod's shim costs as a program of its own
// with what it would cost as the a4s binary under another name: the time until
// main, spent two to three times for every exec, and the resident memory, spent
// for the life of the pod. Both print their version and end.
func BenchmarkShimStart(b *testing.B) {
	binary := os.Getenv("A4S_BINARY")
	if binary == "" {
		b.Skip("needs the built binary: run it with `make bench`")
	}
	carried, err := payload.Extract(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	small := []string{carried.ShimPath, "-v"}
	large := []string{binary, "--version"}

	var smallTime, largeTime time.Duration
	var smallRSS, largeRSS int64
	for b.Loop() { // in turns, so that both meet the same machine
		l := start(b, small...)
		smallTime, smallRSS = smallTime+l.took, max(smallRSS, l.rss)
		l = start(b, large...)
		largeTime, largeRSS = largeTime+l.took, max(largeRSS, l.rss)
	}
	n := float64(b.N)
	b.ReportMetric(smallTime.Seconds()*1000/n, "shim-ms")
	b.ReportMetric(largeTime.Seconds()*1000/n, "a4s-ms")
	b.ReportMetric(float64(largeTime)/float64(smallTime), "time-ratio")
	b.ReportMetric(float64(smallRSS)/1024, "shim-RSS-MiB")
	b.ReportMetric(float64(largeRSS)/1024, "a4s-RSS-MiB")
	b.ReportMetric(float64(largeRSS)/float64(smallRSS), "RSS-ratio")
}

// launcher is the name under which the test binary starts a program for start.
const launcher = "a4s-bench-launcher"

// TestMain lets the test binary be its own launcher.
func TestMain(m *testing.M) {
	if os.Args[0] != launcher {
		os.Exit(m.Run())
	}
	if err := launch(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// launched is a program that has ended: how long it took, the processor time of its own code, and its
// largest resident size in KiB.
type launched struct {
	took, user time.Duration
	rss        int64
}

// launch runs a program to its end and prints launched.
func launch(path string, args []string) error {
	c := exec.Command(path, args...)
	began := time.Now()
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	took := time.Since(began)
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("no resource usage on this system")
	}
	_, err := fmt.Println(took.Nanoseconds(), c.ProcessState.UserTime().Nanoseconds(), usage.Maxrss)
	return err
}

// start runs a program through the launcher. The kernel counts the resident
// size of whoever starts a program as the program's, so that has to be small.
func start(b *testing.B, command ...string) (l launched) {
	b.Helper()
	c := exec.Cmd{Path: "/proc/self/exe", Args: append([]string{launcher}, command...), Stderr: os.Stderr}
	out, err := c.Output()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &l.took, &l.user, &l.rss); err != nil {
		b.Fatalf("the launcher printed %q: %v", out, err)
	}
	return l
}
