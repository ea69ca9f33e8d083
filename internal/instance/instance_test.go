package instance

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestOnlyOneInstance(t *testing.T) {
	dir := t.TempDir()
	lock, err := Acquire(dir, "/data")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := Read(dir); err != nil || info.PID != os.Getpid() || info.DataDir != "/data" {
		t.Errorf("Read = %+v, %v", info, err)
	}
	_, err = Acquire(dir, "/other")
	var p *problem.Precondition
	if !errors.As(err, &p) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second Acquire = %v, want a precondition that names the owner", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	if info, err := Read(dir); err != nil || info.DataDir != "/data" {
		t.Errorf("Read after release = %+v, %v, want the last owner", info, err)
	}
	if lock, err = Acquire(dir, "/data"); err != nil {
		t.Fatalf("Acquire after release = %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestAbsentOrEmptyFileIsNoOwner(t *testing.T) {
	dir := t.TempDir()
	for _, prepare := range []func() error{
		func() error { return nil },
		// a crash between open and write
		func() error { return os.WriteFile(filepath.Join(dir, FileName), nil, 0o644) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Read = %v, want not-exist", err)
		}
	}
}

// What a4s was starting when it was killed holds the lock a moment longer.
func TestLockOfAnEndedProcessIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	held, err := os.Create(filepath.Join(dir, FileName))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(held, `{"pid":%d,"dataDir":"/data"}`, ended.Process.Pid); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		lock, err := Acquire(dir, "/data")
		if err == nil {
			err = lock.Release()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("Acquire while the lock is held = %v", err)
	case <-time.After(5 * orphanRetry):
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("Acquire when the lock is free = %v", err)
	}
}
