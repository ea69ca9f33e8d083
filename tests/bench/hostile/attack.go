package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// order is what a process that attacks is told.
type order struct {
	Row           string
	Host          string
	CA, Cert, Key []byte
	// Outside is an address outside of the cluster, for webhooks.
	Outside string
	// For is how long to attack after "go".
	For time.Duration
}

// gain is what the attacker got.
type gain struct {
	Codes map[int]int
	Error string
}

// The lines of the conversation with a process that attacks.
const (
	prepared = "prepared"
	begin    = "go"
)

// attacker is the administrator of a tenant.
type attacker struct {
	order
	// anew makes a client with a connection of its own.
	anew func() *http.Client
	http *http.Client

	mu    sync.Mutex
	codes map[int]int
}

// attack obeys an order: it prepares, says so, waits until it is to begin, and reports.
func attack(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReaderSize(in, 1<<20)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	a := &attacker{codes: map[int]int{}}
	if err := json.Unmarshal(line, &a.order); err != nil {
		return err
	}
	rows, err := rowsNamed(a.Row)
	if err != nil {
		return err
	}
	if err := a.connect(); err != nil {
		return err
	}
	r := rows[0]
	if r.prepare != nil {
		if err := r.prepare(ctx, a); err != nil {
			return fmt.Errorf("preparing: %w", err)
		}
	}
	fmt.Fprintln(out, prepared) //nolint:errcheck // the benchmark is gone
	if line, err := lines.ReadString('\n'); err != nil || strings.TrimSpace(line) != begin {
		return fmt.Errorf("told to %q: %w", line, err)
	}
	a.mu.Lock()
	a.codes = map[int]int{}
	a.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, a.For)
	defer cancel()
	g := gain{}
	if err := r.attack(limited, a); err != nil && limited.Err() == nil {
		g.Error = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g.Codes = a.codes
	return json.NewEncoder(out).Encode(g)
}

func (a *attacker) connect() error {
	pair, err := tls.X509KeyPair(a.Cert, a.Key)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.CA)
	a.anew = func() *http.Client {
		t := &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
			Protocols:       &http.Protocols{},
		}
		t.Protocols.SetHTTP2(true)
		return &http.Client{Transport: t}
	}
	a.http = a.anew()
	return nil
}

// send sends a request and throws the answer away, all of it.
func (a *attacker) send(ctx context.Context, client *http.Client, method, path, body string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.Host+path, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		a.note(0)
		return 0, err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost
	a.note(resp.StatusCode)
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// ask is send for those who take whatever comes.
func (a *attacker) ask(ctx context.Context, client *http.Client, method, path, body string) (code int) {
	code, _ = a.send(ctx, client, method, path, body) //nolint:errcheck // it is counted
	return code
}

func (a *attacker) note(code int) {
	a.mu.Lock()
	a.codes[code]++
	a.mu.Unlock()
}

// make sends what is to be prepared, which must succeed.
func (a *attacker) make(ctx context.Context, path, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Host+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing is lost
	var said bytes.Buffer
	if _, err := said.ReadFrom(io.LimitReader(resp.Body, 1<<12)); err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("POST %s: %d %s", path, resp.StatusCode, said.String())
	}
	return nil
}

// perConnection is how many clients share a connection.
const perConnection = 50

// clients has so many do something again and again until the context ends. do gets the number
// of the client, and how often it has done it.
func (a *attacker) clients(ctx context.Context, n int, do func(client *http.Client, i, turn int)) error {
	var all sync.WaitGroup
	defer all.Wait()
	var shared *http.Client
	for i := range n {
		if i%perConnection == 0 {
			shared = a.anew()
		}
		client := shared
		all.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				do(client, i, turn)
			}
		})
	}
	return nil
}

// orderOf is the access of a user in an order.
func orderOf(name string, access *rest.Config) order {
	return order{Row: name, Host: access.Host, CA: access.CAData, Cert: access.CertData, Key: access.KeyData}
}
