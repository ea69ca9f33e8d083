package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

// request answers what a request is like when it arrives, and at which pod.
func request(w http.ResponseWriter, r *http.Request) {
	pod, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// A client that is gone needs no answer.
	_ = json.NewEncoder(w).Encode(map[string]any{
		"pod": pod, "host": r.Host, "path": r.URL.Path, "header": r.Header,
	})
}

// body answers all that the client sends.
func body(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(b)
}

// stream writes one line, and no more until the client goes: whoever waits for the end of the answer
// sees none of it.
func stream(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, "begun")
	if err := http.NewResponseController(w).Flush(); err != nil {
		return // the client is gone
	}
	<-r.Context().Done()
}

// upgrade answers with 101, and from then on with what the client sends.
func upgrade(w http.ResponseWriter, r *http.Request) {
	to := r.Header.Get("Upgrade")
	if to == "" {
		http.Error(w, "want an Upgrade", http.StatusUpgradeRequired)
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", to)
	_, _ = io.Copy(conn, buffered)
}
