package restored

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/a4s-io/a4s/internal/problem"
)

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	if r, err := Read(dir); err != nil || r != (Record{}) {
		t.Errorf("without a restore: %+v, %v", r, err)
	}
	if err := SharesKnown(dir, false); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, fileName)); err == nil {
		t.Error("a server that shares nothing has a record")
	}
	if err := SharesKnown(dir, true); err != nil {
		t.Error(err)
	}
	if r, err := Read(dir); err != nil || r != (Record{Shared: true}) {
		t.Errorf("%+v, %v", r, err)
	}
	at := time.Now()
	if !(New(at).At < New(at.Add(time.Millisecond)).At) {
		t.Error("a later restore is not greater")
	}
	if err := New(at).Write(dir); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(dir); err != nil || r != New(at) || !r.Shares {
		t.Errorf("%+v, %v", r, err)
	}
	if err := SharesKnown(dir, true); err != nil {
		t.Fatal(err)
	}
	if r, err := Read(dir); err != nil || r.Shares || !r.Shared || r.At != New(at).At {
		t.Errorf("%+v, %v", r, err)
	}
	// A damaged one does not pass for none: pods would be placed where there is no room.
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p *problem.Precondition
	if _, err := Read(dir); !errors.As(err, &p) {
		t.Errorf("a damaged file: %v", err)
	}
}
