package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/a4s-io/a4s/internal/rootsocket"
)

// maxReport bounds what is read of a report.
const maxReport = 4 << 20

// Ask asks the monitor at the socket, by Path or StatePath, until ctx ends.
func Ask(ctx context.Context, socket, path string) (*Report, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: rootsocket.Dial(socket)}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a4s"+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	report := &Report{}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxReport)).Decode(report); err != nil {
		return nil, fmt.Errorf("reading a report: %w", err)
	}
	return report, nil
}

// Of returns a check that takes over what the silent monitor of another process
// finds; nothing while that does not answer.
func Of(ask func(context.Context) (*Report, error)) Check {
	var mu sync.Mutex
	var before []Holding
	return func(ctx context.Context, r *Registry) {
		mu.Lock()
		defer mu.Unlock()
		var now []Holding
		if report, err := ask(ctx); err == nil {
			now = report.Holdings
		}
		held := map[subject]bool{}
		for _, h := range now {
			held[subject{h.Code, h.Subject}] = true
			r.Set(h.Code, h.Subject, h.Detail)
		}
		for _, h := range before {
			if !held[subject{h.Code, h.Subject}] {
				r.Clear(h.Code, h.Subject)
			}
		}
		before = now
	}
}
