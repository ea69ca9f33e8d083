package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// lookupTimeout bounds what one request of a test may wait for the network.
const lookupTimeout = 5 * time.Second

// gate is an answer that a test switches between healthy and not.
type gate struct{ closed atomic.Bool }

// ServeHTTP answers 200 or 503; POST with ?ok= switches.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		g.closed.Store(r.URL.Query().Get("ok") == "false")
		fmt.Fprintln(w, "switched")
		return
	}
	if g.closed.Load() {
		http.Error(w, "closed by the test", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serve answers questions about the pod until ctx ends, at a second address with TLS.
func serve(ctx context.Context, out io.Writer, args []string) error {
	addr := ":8080"
	if len(args) > 0 {
		addr = args[0]
	}
	// A new instance has a new id: a test sees with it that a server is the
	// very process that it was before.
	instance := rand.Text()
	mux := http.NewServeMux()
	answer := func(path string, f func(r *http.Request) (string, error)) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			text, err := f(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
			fmt.Fprintln(w, text)
		})
	}
	answer("/hostname", func(*http.Request) (string, error) { return os.Hostname() })
	answer("/instance", func(*http.Request) (string, error) { return instance, nil })
	answer("/client", func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return host, err
	})
	answer("/env", func(r *http.Request) (string, error) { return os.Getenv(r.URL.Query().Get("name")), nil })
	answer("/file", func(r *http.Request) (string, error) { return cat(r.Context(), r.URL.Query().Get("path")) })
	answer("/get", func(r *http.Request) (string, error) { return get(r.Context(), r.URL.Query().Get("url")) })
	answer("/resolve", func(r *http.Request) (string, error) {
		return resolve(r.Context(), r.URL.Query().Get("name"), r.URL.Query().Get("type"))
	})
	mux.HandleFunc("/request/", request)
	mux.HandleFunc("/body", body)
	mux.HandleFunc("/stream", stream)
	mux.HandleFunc("/upgrade", upgrade)
	mux.Handle("/healthz", new(gate))
	mux.Handle("/readyz", new(gate))

	server := &http.Server{Addr: addr, Handler: mux, ReadHeaderTimeout: lookupTimeout}
	failed := make(chan error, 2)
	go func() { failed <- server.ListenAndServe() }()
	if len(args) > 1 {
		certificate, err := ownCertificate()
		if err != nil {
			return err
		}
		secure := &http.Server{Addr: args[1], Handler: mux, ReadHeaderTimeout: lookupTimeout,
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}}}
		defer secure.Close()
		go func() { failed <- secure.ListenAndServeTLS("", "") }()
	}
	fmt.Fprintln(out, "testbox serves on", addr, "as", instance)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		fmt.Fprintln(out, "testbox stops")
		return server.Close()
	}
}

// ownCertificate is one that nobody signed. Its subject is the name of the pod.
func ownCertificate() (tls.Certificate, error) {
	name, err := os.Hostname()
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// get returns the body of a URL. Each call opens its own connection, because
// a kept one would stay with the endpoint that it first met.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(body))
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s", resp.Status, text)
	}
	return text, nil
}

// dns prints the records of a name, one a line.
func dns(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New("want NAME [TYPE]")
	}
	kind := ""
	if len(args) == 2 {
		kind = args[1]
	}
	text, err := resolve(ctx, args[0], kind)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, text)
	return err
}

// resolve looks name up the way the pod's resolv.conf says and returns the
// records in sorted lines. The type is A (the default), SRV, PTR or CNAME.
func resolve(ctx context.Context, name, kind string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	resolver := &net.Resolver{PreferGo: true}
	var lines []string
	switch strings.ToUpper(kind) {
	case "", "A":
		ips, err := resolver.LookupIP(ctx, "ip4", name)
		if err != nil {
			return "", err
		}
		for _, ip := range ips {
			lines = append(lines, ip.String())
		}
	case "SRV":
		_, srvs, err := resolver.LookupSRV(ctx, "", "", name)
		if err != nil {
			return "", err
		}
		for _, s := range srvs {
			lines = append(lines, fmt.Sprintf("%s:%d", s.Target, s.Port))
		}
	case "PTR":
		names, err := resolver.LookupAddr(ctx, name)
		if err != nil {
			return "", err
		}
		lines = names
	case "CNAME":
		target, err := resolver.LookupCNAME(ctx, name)
		if err != nil {
			return "", err
		}
		lines = []string{target}
	default:
		return "", fmt.Errorf("type %q: want A, SRV, PTR or CNAME", kind)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}
