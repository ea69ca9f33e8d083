package localstorage

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// A server says what to do twice, as after an answer that got lost, and breaks
// off between.
func TestDoesWhatTheServerSays(t *testing.T) {
	dir := t.TempDir()
	first, second := volume(dir, "pvc-1"), volume(dir, "pvc-2")
	if err := create(second); err != nil {
		t.Fatal(err)
	}
	second.Remove = true
	bad := joinapi.LocalVolume{Name: "pvc-3", UID: "3", Path: "/"}
	answers := make(chan joinapi.LocalVolumeDone, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + r.URL.Path {
		case "GET" + joinapi.PathLocalVolumes:
			_ = json.NewEncoder(w).Encode(joinapi.LocalVolumes{Volumes: []joinapi.LocalVolume{second, first, bad}})
		case "POST" + joinapi.PathLocalVolumeDone:
			var done joinapi.LocalVolumeDone
			if err := json.NewDecoder(r.Body).Decode(&done); err != nil {
				t.Error(err)
			}
			answers <- done
			w.WriteHeader(http.StatusNoContent)
		default:
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
	}))
	defer server.Close()
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- New(Options{Config: &rest.Config{Host: server.URL}, Log: logrus.NewEntry(log)}).Run(ctx, func() {})
	}()
	// What is to be made comes first, in any order.
	for range 2 {
		got := []joinapi.LocalVolumeDone{<-answers, <-answers, <-answers}
		slices.SortFunc(got[:2], func(a, b joinapi.LocalVolumeDone) int { return strings.Compare(a.Name, b.Name) })
		for i := range got {
			if failed := got[i].Error != ""; failed != (got[i].Name == "pvc-3") {
				t.Errorf("%s: %q", got[i].Name, got[i].Error)
			}
			got[i].Error = ""
		}
		if want := []joinapi.LocalVolumeDone{{Name: "pvc-1", UID: "1"}, {Name: "pvc-3", UID: "3"},
			{Name: "pvc-2", UID: "1", Removed: true}}; !slices.Equal(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(first.Path); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(second.Path); !os.IsNotExist(err) {
		t.Errorf("the removed one: %v", err)
	}
}
