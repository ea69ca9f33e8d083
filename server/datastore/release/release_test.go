package release

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/a4s-io/a4s/internal/problem"
)

func of(minor string) Record { return Record{Version: "v0." + minor, Kubernetes: "v1." + minor + ".2"} }

// begin is Begin with a save that says what it was called for.
func begin(t *testing.T, dir string, own Record, present bool) (saved string) {
	t.Helper()
	if err := Begin(dir, own, present, func(before Record) (string, error) {
		saved = before.String()
		return "/x/before-upgrade-n1-1.tar", nil
	}); err != nil {
		t.Fatal(err)
	}
	return saved
}

func TestDataAreSavedBeforeANewerRelease(t *testing.T) {
	dir := t.TempDir()
	if saved := begin(t, dir, of("36"), false); saved != "" {
		t.Errorf("nothing was there, and it was saved for %s", saved)
	}
	if saved := begin(t, dir, of("36"), true); saved != "" {
		t.Errorf("the same release saves for %s", saved)
	}
	if saved := begin(t, dir, of("37"), true); saved != of("36").String() {
		t.Errorf("saved for %q", saved)
	}
	if saved := begin(t, dir, of("37"), true); saved != "" {
		t.Errorf("again saved for %s", saved)
	}
	if r, err := Read(dir); err != nil || r.Before != "/x/before-upgrade-n1-1.tar" || r.Kubernetes != "v1.37.2" {
		t.Errorf("%+v, %v", r, err)
	}
	// Data of an a4s that kept no record.
	if saved := begin(t, t.TempDir(), of("37"), true); saved == "" {
		t.Error("data of an unknown release were not saved")
	}
	// A build without a version leaves everything alone.
	if saved := begin(t, dir, Record{Version: "v0.0.0-dev", Kubernetes: "unknown"}, true); saved != "" {
		t.Errorf("a build without a version saved for %s", saved)
	}
	if r, _ := Read(dir); r.Kubernetes != "v1.37.2" {
		t.Errorf("a build without a version wrote %+v", r)
	}
}

// A release that cannot save does not begin, and tries again.
func TestNothingBeginsWithoutTheSave(t *testing.T) {
	dir, full := t.TempDir(), errors.New("no space left")
	begin(t, dir, of("36"), false)
	if err := Begin(dir, of("37"), true, func(Record) (string, error) { return "", full }); !errors.Is(err, full) {
		t.Error(err)
	}
	if r, _ := Read(dir); r.Kubernetes != "v1.36.2" {
		t.Errorf("the record is %+v", r)
	}
}

func TestOlderReleasesAreRefused(t *testing.T) {
	dir := t.TempDir()
	begin(t, dir, of("36"), false)
	begin(t, dir, of("37"), true)
	for _, fine := range []Record{of("37"), {Version: "v9", Kubernetes: "v1.37.0"}, of("38"),
		{Kubernetes: "unknown"}} {
		if err := Check(dir, fine); err != nil {
			t.Errorf("%s: %v", fine, err)
		}
	}
	for before, want := range map[string]string{
		"/x/before-upgrade-n1-1.tar":   "a4s etcd-snapshot restore before-upgrade-n1-1.tar",
		"/y/before-v1.37.2-1-state.db": "/y/before-v1.37.2-1-state.db into its place, and remove " + file(dir),
		"":                             "restore what you saved",
	} {
		last := of("37")
		last.Before = before
		if err := Write(dir, last); err != nil {
			t.Fatal(err)
		}
		err := Check(dir, of("36"))
		var p *problem.Precondition
		if !errors.As(err, &p) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "v1.37.2") ||
			!strings.Contains(err.Error(), dir) {
			t.Errorf("%v", err)
		}
	}
	if err := os.WriteFile(file(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	var p *problem.Precondition
	if err := Check(dir, of("37")); !errors.As(err, &p) {
		t.Errorf("a damaged record: %v", err)
	}
}
