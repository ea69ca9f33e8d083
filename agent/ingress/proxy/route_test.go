package proxy

import (
	"net/http"
	"testing"

	"github.com/a4s-io/a4s/internal/joinapi"
)

func split(parts ...joinapi.IngressPart) joinapi.IngressPath {
	return joinapi.IngressPath{Path: "/", Split: parts}
}

func TestPartsHaveTheirWeights(t *testing.T) {
	told := split(joinapi.IngressPart{Backend: "none", Weight: 0}, joinapi.IngressPart{Backend: "a", Weight: 3},
		joinapi.IngressPart{Backend: "less", Weight: -5}, joinapi.IngressPart{Backend: "b", Weight: 1},
		joinapi.IngressPart{Backend: "none", Weight: 0}, joinapi.IngressPart{Backend: "c", Weight: 2})
	r := newRoute(&told)
	got := map[string]int{}
	for i := range r.parts[len(r.parts)-1].until {
		got[r.partAt(i).backend]++
	}
	if len(got) != 3 || got["a"] != 3 || got["b"] != 1 || got["c"] != 2 {
		t.Errorf("%v", got)
	}
	const most = 1<<31 - 1
	told = split(joinapi.IngressPart{Backend: "a", Weight: most}, joinapi.IngressPart{Backend: "b", Weight: most})
	r = newRoute(&told)
	if sum := r.parts[1].until; sum != 2*most || r.partAt(most).backend != "b" || r.partAt(most-1).backend != "a" {
		t.Errorf("the sum is %d", sum)
	}
}

func TestSplit(t *testing.T) {
	at := pod(t, says("served"))
	part := func(backend string, weight int32) joinapi.IngressPart {
		return joinapi.IngressPart{Backend: backend, Weight: weight}
	}
	w := newWorld(t, Limits{}, backendLine("b", "a", "", at), backendLine("empty", "a", ""),
		backendLine("foreign", "other", "", at))
	c := w.client(nil)
	for name, of := range map[string]struct {
		path   joinapi.IngressPath
		status int
	}{
		"one part":         {split(part("b", 1)), 200},
		"one has all":      {split(part("b", 1), part("empty", 0)), 200},
		"no weight":        {split(part("b", 0)), 500},
		"less than none":   {split(part("b", -1)), 500},
		"nothing":          {split(), 500},
		"no backend":       {split(part("", 1)), 500},
		"no endpoint":      {split(part("empty", 1)), 503},
		"one of another":   {split(part("foreign", 1)), 503},
		"one unknown":      {split(part("unknown", 1)), 503},
		"a backend beside": {joinapi.IngressPath{Path: "/", Backend: "b", Split: split(part("", 1)).Split}, 200},
	} {
		w.tell(hostLine("a.test", "a", of.path))
		if status, body := get(t, c, "http://a.test/"); status != of.status {
			t.Errorf("%s: %d %s, want %d", name, status, body, of.status)
		}
	}
	w.tell(hostLine("a.test", "a", split(part("b", 1), part("", 1))))
	seen := map[int]bool{}
	eventually(t, "both parts have requests", func() bool {
		status, _ := get(t, c, "http://a.test/")
		seen[status] = true
		return seen[http.StatusOK] && seen[http.StatusInternalServerError]
	})
	if n := w.inFlight.Load(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}
