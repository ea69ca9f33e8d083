package instance

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestOnlyOneInstance(t *testing.T) {
	dir := t.TempDir()
	release, err := Acquire(dir, "/data")
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
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if info, err := Read(dir); err != nil || info.DataDir != "/data" {
		t.Errorf("Read after release = %+v, %v, want the last owner", info, err)
	}
	if release, err = Acquire(dir, "/data"); err != nil {
		t.Fatalf("Acquire after release = %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}

func TestAbsentOrEmptyFileIsNoOwner(t *testing.T) {
	dir := t.TempDir()
	for _, prepare := range []func() error{
		func() error { return nil },
		func() error { return os.WriteFile(filepath.Join(dir, FileName), nil, 0o644) }, // a crash between open and write
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Read = %v, want not-exist", err)
		}
	}
}
