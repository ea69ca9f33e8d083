package join

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
)

func TestOnlyTheCompleteServerTokenIsGoodForServers(t *testing.T) {
	hash := "K10" + strings.Repeat("a", 64)
	for text, says := range map[string]string{
		hash + "::server:pa55word":         "",
		"":                                 "needs their token",
		"pa55word":                         "which CA to trust",
		hash + "::node:pa55word":           "no servers",
		hash + "::abcdef.0123456789abcdef": "no servers",
		"abcdef.0123456789abcdef":          "no servers",
		hash:                               `no "::"`,
	} {
		_, err := ParseToken(text)
		var in *problem.Input
		switch {
		case says == "" && err != nil:
			t.Errorf("%q: %v", text, err)
		case says != "" && (!errors.As(err, &in) || in.Source != flagToken || !strings.Contains(err.Error(), says) ||
			strings.Contains(err.Error(), "pa55word")):
			t.Errorf("%q: error %v, want one that says %q", text, err, says)
		}
	}
}

func TestAgree(t *testing.T) {
	setting := func(flag, value string) joinapi.ServerSetting {
		return joinapi.ServerSetting{Flag: flag, Value: value}
	}
	own := []joinapi.ServerSetting{setting("--cluster-cidr", "10.42.0.0/16"),
		setting("--cluster-domain", "cluster.local"), setting("--newer", "x")}
	for _, tc := range []struct {
		name   string
		theirs []joinapi.ServerSetting
		flags  []string
	}{
		{"the same", own, nil},
		{"another version", []joinapi.ServerSetting{setting("--older", "y")}, nil},
		{"one differs", []joinapi.ServerSetting{setting("--cluster-cidr", "10.52.0.0/16"),
			setting("--cluster-domain", "cluster.local")}, []string{"--cluster-cidr"}},
		{"two differ", []joinapi.ServerSetting{setting("--cluster-cidr", "10.52.0.0/16"),
			setting("--cluster-domain", "")}, []string{"--cluster-cidr", "--cluster-domain"}},
	} {
		err := Agree(own, tc.theirs, "https://one:6443")
		if (err == nil) != (len(tc.flags) == 0) || errors.Is(err, ErrDiffers) != (err != nil) {
			t.Errorf("%s: %v", tc.name, err)
		}
		for _, flag := range tc.flags {
			if !strings.Contains(err.Error(), flag+": invalid value") {
				t.Errorf("%s: %v, want %s named", tc.name, err, flag)
			}
		}
	}
}

// A server joins those that have the datastore that it would have.
func TestSameDatastore(t *testing.T) {
	own := &joinapi.ServerBundle{Datastore: []string{"https://192.0.2.1:2379"}}
	shared := &joinapi.ServerBundle{Cluster: "c"}
	for _, c := range []struct {
		what   string
		shared bool
		bundle *joinapi.ServerBundle
		flag   string // "" for no error
	}{
		{"embedded etcd", false, own, ""},
		{"an etcd of others", true, shared, ""},
		{"embedded etcd joins an etcd of others", false, shared, "--datastore-endpoint"},
		{"an etcd of others joins embedded etcd", true, own, "--datastore-endpoint"},
		{"embedded etcd joins a single server", false, &joinapi.ServerBundle{}, "--server"},
		{"an etcd of others joins a single server", true, &joinapi.ServerBundle{}, "--server"},
	} {
		err := sameDatastore("https://one:6443", c.shared, c.bundle)
		var in *problem.Input
		if (err == nil) != (c.flag == "") || err != nil && (!errors.As(err, &in) || in.Source != c.flag) {
			t.Errorf("%s: %v, want one of %q", c.what, err, c.flag)
		}
	}
}

// The token goes to nobody but a server of its CA, and the answers of that one
// become problems of the user.
func TestFetch(t *testing.T) {
	var asked int
	answer := func(w http.ResponseWriter) {
		_, _ = w.Write([]byte(`{"settings":[{"flag":"--cluster-cidr","value":"a"}],` +
			`"datastore":["https://192.0.2.1:2379"],"serverToken":"s"}`))
	}
	var bundle []byte
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case joinapi.PathCACerts:
			if r.Header.Get("Authorization") != "" {
				t.Error("a credential was sent before the CA was checked")
			}
			_, _ = w.Write(bundle)
		case joinapi.PathServer:
			asked++
			if user, password, _ := r.BasicAuth(); user != joinapi.UserServer || password != "s" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			answer(w)
		}
	}))
	defer server.Close()
	bundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hash, err := pki.HashBundle(bundle)
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(hash, password, cidr string) (*joinapi.ServerBundle, error) {
		return Fetch(context.Background(), Options{
			// The first is down.
			URLs: []string{"https://127.0.0.1:1", server.URL}, Log: logrus.NewEntry(logrus.New()),
			Token:    jointoken.Token{CAHash: hash, User: joinapi.UserServer, Password: password},
			Settings: []joinapi.ServerSetting{{Flag: "--cluster-cidr", Value: cidr}},
		})
	}
	got, err := fetch(hash, "s", "a")
	if err != nil || got.ServerToken != "s" {
		t.Fatalf("%+v, %v", got, err)
	}
	asked = 0
	refused := func(what, says, hash, password, cidr string) {
		t.Helper()
		_, err := fetch(hash, password, cidr)
		var in *problem.Input
		if !errors.As(err, &in) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: error %v, want one that says %q", what, err, says)
		}
	}
	refused("another CA", "is not a server of the cluster", strings.Repeat("0", 64), "s", "a")
	if asked != 0 {
		t.Error("the token was shown to a server of another CA")
	}
	refused("a wrong token", "refuses it", hash, "wrong", "a")
	refused("another setting", "--cluster-cidr", hash, "s", "b")
	answer = func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{}`)) }
	refused("a single server", "--cluster-init", hash, "s", "a")
}
