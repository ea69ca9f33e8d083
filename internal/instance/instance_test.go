package instance

import (
	"errors"
	"os"
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
	if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read after release = %v, want not-exist", err)
	}
	if release, err = Acquire(dir, "/data"); err != nil {
		t.Fatalf("Acquire after release = %v", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
}
