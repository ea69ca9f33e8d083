package edge

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a4s-io/a4s/server/tenancy/fairness/fairqueue"
)

// oneSeat is a queue for one request at a time, on a machine that is busy.
func oneSeat() *queue {
	return newQueue(fairqueue.New(fairqueue.Options{Seats: 1, Share: 1, Length: 8,
		Busy: func() int { return 1000 }}))
}

// waits is how long a request waits for its seat.
func waits(t *testing.T, q *queue) time.Duration {
	t.Helper()
	began := time.Now()
	next, err := q.enter(httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil), nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer next.leave()
	return time.Since(began)
}

// blocking is a client that takes its time.
type blocking struct {
	*httptest.ResponseRecorder
	takes time.Duration
}

func (b blocking) Write(p []byte) (int, error) {
	time.Sleep(b.takes)
	return b.ResponseRecorder.Write(p)
}

func (b blocking) Read([]byte) (int, error) {
	time.Sleep(b.takes)
	return 0, io.EOF
}

func (b blocking) Close() error { return nil }

// TestClientsAreWaitedForWithoutASeat: who sends or reads slowly keeps nobody waiting, and
// nothing is computed beside what has got the seat meanwhile.
func TestClientsAreWaitedForWithoutASeat(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(w http.ResponseWriter, req *http.Request) error
	}{
		{"a body", func(_ http.ResponseWriter, req *http.Request) error {
			_, err := io.ReadAll(req.Body)
			return err
		}},
		{"an answer", func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "answer")
			return err
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := oneSeat()
			client := blocking{httptest.NewRecorder(), time.Minute}
			req := httptest.NewRequest(http.MethodPost, "/api/v1/pods", client)
			a, err := q.enter(req, nil, "", 0)
			if err != nil {
				t.Fatal(err)
			}
			defer a.leave()
			w, req := a.seated(client, req)
			done := make(chan error, 1)
			go func() { done <- c.do(w, req) }()
			synctest.Wait()
			if waited := waits(t, q); waited > 10*time.Millisecond {
				t.Errorf("%s: another request waits for %v", c.what, waited)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			fairqueue.Of(req.Context()).Need()
		})
	}
}

// TestEventsOfWatchesTakeTurns: a watch has no seat between its events, from its header
// on, whatever it begins with, and one for each event.
func TestEventsOfWatchesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := oneSeat()
		req := httptest.NewRequest(http.MethodGet, "/api/v1/pods?watch=1", nil)
		a, err := q.enter(req, nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		w, req := a.seated(httptest.NewRecorder(), req)
		event, ended := make(chan struct{}), make(chan struct{})
		wrote := make(chan time.Duration)
		served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			for range event {
				began := time.Now()
				if _, err := io.WriteString(w, strings.Repeat("x", 10)); err != nil {
					t.Error(err)
				}
				wrote <- time.Since(began)
			}
		})
		go func() {
			defer close(ended)
			defer a.leave()
			inTurns(served, fairqueue.Of(req.Context())).ServeHTTP(w, req)
		}()
		synctest.Wait()
		for range 3 {
			if waited := waits(t, q); waited > 0 {
				t.Errorf("another request waits for %v", waited)
			}
			event <- struct{}{}
			if took := <-wrote; took > 0 {
				t.Errorf("an event takes %v", took)
			}
		}
		other, err := q.enter(httptest.NewRequest(http.MethodGet, "/api/v1/pods", nil), nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		event <- struct{}{}
		time.Sleep(time.Second)
		other.leave()
		if took := <-wrote; took != time.Second {
			t.Errorf("beside another request an event takes %v", took)
		}
		close(event)
		<-ended
		if waited := waits(t, q); waited > 0 {
			t.Errorf("in the end a request waits for %v", waited)
		}
	})
}
