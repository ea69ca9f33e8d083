package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a4s-io/a4s/scripts/gomod"
)

func TestPartsOfWhatTheGoCommandSays(t *testing.T) {
	parts, err := partsOf("go.mod", []byte(`
		{"Path": "example.com/old", "Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z", "Update": {"Version": "v1.1.0", "Time": "2026-02-01T00:00:00Z"}}
		{"Path": "example.com/current", "Version": "v2.0.0", "Time": "2026-01-01T00:00:00Z"}
		{"Path": "example.com/pinned", "Version": "v3.0.0", "Replace": {"Version": "v2.9.0", "Update": {"Version": "v3.0.0"}}}
		{"Path": "example.com/here", "Version": "v0.0.0", "Replace": {"Path": "../here"}}
		{"Path": "example.com/hidden", "Version": "v1.0.0", "Error": {"Err": "no answer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range parts {
		got = append(got, strings.Join([]string{p.Name, p.Version, p.Newest, p.Why}, " "))
	}
	want := []string{
		"example.com/old v1.0.0 v1.1.0 ", "example.com/current v2.0.0 v2.0.0 ", "example.com/pinned v2.9.0 v3.0.0 ",
		"example.com/hidden v1.0.0  no answer",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if _, err := partsOf("go.mod", []byte(`{"Path":`)); err == nil {
		t.Error("half an answer was taken")
	}
}

func TestDirectModules(t *testing.T) {
	var mod gomod.File
	err := json.Unmarshal([]byte(`{
		"Require": [
			{"Path": "k8s.io/kubernetes"}, {"Path": "k8s.io/api"}, {"Path": "k8s.io/utils"}, {"Path": "example.com/tools", "Indirect": true},
			{"Path": "example.com/indirect", "Indirect": true}, {"Path": "github.com/a4s-io/a4s"}],
		"Replace": [
			{"Old": {"Path": "k8s.io/api"}, "New": {"Path": "k8s.io/api", "Version": "v0.36.3"}},
			{"Old": {"Path": "k8s.io/utils"}, "New": {"Path": "k8s.io/utils", "Version": "v0.0.0-20260319190234-28399d86e0b5"}}],
		"Tool": [{"Path": "example.com/tools/one"}]}`), &mod)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := direct(&mod),
		[]string{"k8s.io/kubernetes", "k8s.io/utils", "example.com/tools"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNewestGo(t *testing.T) {
	versions := []string{"v0.0.1-go1.9.2.linux-amd64", "v0.0.1-go1.27.4.linux-amd64", "v0.0.1-go1.27.10.linux-amd64",
		"v0.0.1-go1.28rc1.linux-amd64", "v0.0.1-go1.29.1.linux-arm64"}
	if got := newestGo(versions, "1.26.8"); got != "1.27.10" {
		t.Error(got)
	}
	if got := newestGo(versions, "1.28.0"); got != "1.28.0" {
		t.Error(got)
	}
}

func TestTable(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	var b strings.Builder
	err := print(&b, []part{
		{Name: "current", Where: "go.mod", Version: "v1", Newest: "v1", Date: at(1)},
		{Name: "late", Where: "go.mod", Version: "v1", Newest: "v2", Date: at(1), NewestDate: at(20)},
		{Name: "unknown", Where: "Makefile", Version: "v1", Date: at(2), Why: "no answer"},
		{Name: "later", Where: "go.mod", Version: "v1", Newest: "v3", NewestDate: at(10)},
	}, at(31))
	const want = `PART     PINNED IN  VERSION  DATE        AGE  NEWEST  DATE        WAITS
unknown  Makefile   v1       2026-01-02  29   ?       -           -
later    go.mod     v1       ?           ?    v3      2026-01-10  21
late     go.mod     v1       2026-01-01  30   v2      2026-01-20  11
current  go.mod     v1       2026-01-01  30   -       -           -
2 of 4 parts have a newer version. Ages are days.
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
	if err == nil || !strings.Contains(err.Error(), "the newest unknown is not known: no answer") {
		t.Errorf("what is not known: %v", err)
	}
}
