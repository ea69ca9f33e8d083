package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func pod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, damaged, err := Open(dir)
	if err != nil || len(damaged) > 0 {
		t.Fatalf("opening %s: %v, damaged: %v", dir, err, damaged)
	}
	return s
}

func TestPodsSurviveWithTheirState(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	for _, name := range []string{"local", "ending", "ended", "taken"} {
		if _, err := s.Create(pod(name)); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	if _, err := s.MarkDeleted("uid-ending", now); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetStatus("uid-ended", &corev1.PodStatus{Phase: corev1.PodSucceeded}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.MarkPersisted("uid-taken", "other", "7"); err != nil {
		t.Fatal(err)
	}

	s = open(t, dir)
	if n := len(s.List()); n != 4 {
		t.Fatalf("%d pods are left of 4", n)
	}
	get := func(uid types.UID) *Entry {
		e, ok := s.Get(uid)
		if !ok {
			t.Fatalf("%s is gone", uid)
		}
		return e
	}
	if e := get("uid-local"); e.State != Local || e.Pod.DeletionTimestamp != nil {
		t.Errorf("local: %+v", e)
	}
	if e := get("uid-ending"); e.Pod.DeletionTimestamp == nil ||
		!e.Pod.DeletionTimestamp.Time.Equal(now.Add(30*time.Second)) || *e.Pod.DeletionGracePeriodSeconds != 30 {
		t.Errorf("ending: %+v", e.Pod.ObjectMeta)
	}
	if e := get("uid-ended"); e.Pod.Status.Phase != corev1.PodSucceeded {
		t.Errorf("a pod that ended is %s now and would run again", e.Pod.Status.Phase)
	}
	if e := get("other"); e.State != Persisted || e.Pod.UID != "uid-taken" || e.ResourceVersion != "7" {
		t.Errorf("taken: %+v", e)
	}
}

func TestDamagedFileIsNamedAndTheOthersGoOn(t *testing.T) {
	dir := t.TempDir()
	if _, err := open(t, dir).Create(pod("good")); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"broken.json": `{"pod": {`, "empty.json": `{}`,
		"moved.json": `{"pod":{"metadata":{"name":"x","namespace":"y","uid":"z"},` +
			`"spec":{"containers":[{"name":"c"}]}}}`, ".x.tmp-1": "half"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, damaged, err := Open(dir)
	if err != nil || len(damaged) != 3 {
		t.Fatalf("error %v, damaged %v, want three", err, damaged)
	}
	for _, name := range []string{"broken.json", "empty.json", "moved.json"} {
		if !strings.Contains(errors.Join(damaged...).Error(), filepath.Join(dir, name)) {
			t.Errorf("%v does not name %s", damaged, name)
		}
	}
	if _, ok := s.Get("uid-good"); !ok {
		t.Error("the good pod is gone, too")
	}
}

func TestNothingIsHalfCreated(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var changes int
	s.OnChange(func(Change) { changes++ })
	if err := os.RemoveAll(dir); err != nil { // as a disk that cannot be written
		t.Fatal(err)
	}
	if _, err := s.Create(pod("a")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v, want that of the disk", err)
	}
	if _, ok := s.Get("uid-a"); ok || changes != 0 {
		t.Error("the pod is there although its file is not")
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(pod("a")); err != nil {
		t.Errorf("the name stayed taken: %v", err)
	}
}

func TestOneNameOnePodUnderConcurrency(t *testing.T) {
	s := open(t, t.TempDir())
	var wg sync.WaitGroup
	var mu sync.Mutex
	created, refused := 0, 0
	for i := range 50 {
		wg.Go(func() {
			p := pod("same")
			p.UID = types.UID(fmt.Sprint("uid-", i))
			_, err := s.Create(p)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				created++
			case errors.Is(err, ErrExists):
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if created != 1 || refused != 49 {
		t.Errorf("%d created, %d refused", created, refused)
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	now := time.Now()
	for name, tc := range map[string]struct {
		before func(s *Store) error
		do     func(s *Store) error
		want   error
	}{
		"the end of a persisted pod": {persist,
			func(s *Store) error { _, err := s.MarkDeleted("uid-a", now); return err }, ErrPersisted},
		"the end of a pod that is offered": {begin,
			func(s *Store) error { _, err := s.MarkDeleted("uid-a", now); return err }, ErrBusy},
		"an offer of a pod that ends": {end, begin, ErrBusy},
		"two offers":                  {begin, begin, ErrBusy},
		"an offer of a persisted pod": {persist, begin, ErrPersisted},
		"a status of a persisted pod": {persist, func(s *Store) error {
			_, err := s.SetStatus("uid-a", &corev1.PodStatus{})
			return err
		}, ErrPersisted},
		"the end after an offer": {func(s *Store) error {
			_, err := s.EndOffer("uid-a", "no", true)
			return errors.Join(begin(s), err)
		}, func(s *Store) error { _, err := s.EndOffer("uid-a", "no", true); return errors.Join(err, end(s)) }, nil},
		"twice the end": {end, end, nil},
		"a pod that is unknown": {persist, func(s *Store) error {
			_, err := s.MarkPersisted("nobody", "", "")
			return err
		}, ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			if _, err := s.Create(pod("a")); err != nil {
				t.Fatal(err)
			}
			if err := tc.before(s); err != nil {
				t.Fatal(err)
			}
			if err := tc.do(s); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

func persist(s *Store) error { _, err := s.MarkPersisted("uid-a", "uid-a", "1"); return err }
func begin(s *Store) error   { _, err := s.BeginOffer("uid-a"); return err }
func end(s *Store) error     { _, err := s.MarkDeleted("uid-a", time.Now()); return err }

func TestChangesAreToldWhileNoServerShowsThePod(t *testing.T) {
	s := open(t, t.TempDir())
	var told []string
	s.OnChange(func(c Change) {
		told = append(told, fmt.Sprintf("%s created=%t removed=%t", c.Entry.Pod.Name, c.Created, c.Removed))
	})
	steps := []func() error{
		func() error { _, err := s.Create(pod("a")); return err },
		func() error { _, err := s.SetStatus("uid-a", &corev1.PodStatus{Message: "x"}); return err },
		func() error { return begin(s) },   // no change of the pod
		func() error { return persist(s) }, // the server tells from here on
		func() error { return s.Remove("uid-a") },
		func() error { _, err := s.Create(pod("b")); return err },
		func() error { _, err := s.MarkSeen("uid-b", "uid-b", "3"); return err },
		func() error { return s.Remove("uid-b") },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	want := []string{"a created=true removed=false", "a created=false removed=false", "a created=false removed=true",
		"b created=true removed=false"}
	if fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
