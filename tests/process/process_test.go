package process

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"testing"
)

// endThreads ends threads of this process: as many goroutines as it has, and more, lock one each, all at a time,
// and end.
func endThreads() {
	const many = 100
	var all, locked sync.WaitGroup
	locked.Add(many)
	for range many {
		all.Go(func() {
			runtime.LockOSThread()
			locked.Done()
			locked.Wait()
		})
	}
	all.Wait()
}

// TestProgramsOutliveThreads: programs go on while threads come and go. Without threads of their own some are
// killed: all but those of the main thread, which never ends.
func TestProgramsOutliveThreads(t *testing.T) {
	var programs, started, ended sync.WaitGroup
	const many = 20
	started.Add(many)
	ended.Add(1)
	for range many {
		programs.Go(func() { goesOn(t, &started, &ended) })
	}
	started.Wait()
	endThreads()
	ended.Done()
	programs.Wait()
}

// goesOn runs a program which says a line after threads have ended.
func goesOn(t *testing.T, started, ended *sync.WaitGroup) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	var out io.Reader
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	var wait func() error
	if err == nil {
		wait, err = Start(cmd)
	}
	started.Done()
	if err != nil {
		t.Error(err)
		return
	}
	ended.Wait()
	_, err = in.Write([]byte("x\n"))
	line, readErr := bufio.NewReader(out).ReadString('\n')
	if err := errors.Join(err, readErr, in.Close(), wait(), wait()); err != nil || line != "x\n" {
		t.Errorf("a program is gone: %v", err)
	}
}

func TestCombinedOutput(t *testing.T) {
	said, err := CombinedOutput(exec.Command("sh", "-c", "echo out; echo err >&2; exit 3"))
	if string(said) != "out\nerr\n" || err == nil {
		t.Errorf("it says %q: %v", said, err)
	}
	if _, err := CombinedOutput(exec.Command("/nowhere/at/all")); err == nil {
		t.Error("a program that is not there runs")
	}
}
