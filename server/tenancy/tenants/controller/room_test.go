package controller

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	restclient "k8s.io/client-go/rest"
)

func TestEveryRequestWaitsForRoom(t *testing.T) {
	var requests, rooms atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) != rooms.Load() {
			t.Error("a request that did not wait")
		}
		w.WriteHeader(http.StatusConflict)
		// the test fails without it
		w.Write([]byte( //nolint:errcheck
			`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"AlreadyExists","code":409}`))
	}))
	defer server.Close()
	c, err := newController(Options{Config: &restclient.Config{Host: server.URL}, Log: logrus.NewEntry(logrus.New()),
		Room: func(context.Context) {
			if rooms.Add(1) != requests.Load()+1 {
				t.Error("a wait that no request followed")
			}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.shutDown()
	if err := c.makeSpace(t.Context(), "t1"); err != nil {
		t.Fatal(err)
	}
	if n, want := requests.Load(), int64(len(defaultNamespaces())+2); n != want {
		t.Errorf("%d requests, want %d", n, want)
	}
}
