package mux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/noderuntime"
	"github.com/a4s-io/a4s/internal/rootsocket"
	"github.com/a4s-io/a4s/internal/workload"
)

// Errors of adding and removing runtimes.
var (
	ErrUnknown = errors.New("no such runtime")
	ErrPrimary = errors.New("the primary runtime of a node is chosen when the node starts, by its settings, " +
		"because the node's readiness follows it")
	ErrBuiltin = errors.New("a runtime that a4s carries starts with the node: name it with --runtime")
	ErrInUse   = errors.New("the runtime still has pods")
)

// maxBody is more than any request needs.
const maxBody = 64 << 10

// Add registers a runtime, also for later starts.
func (m *Mux) Add(r Runtime) (State, error) {
	if err := r.Complete(); err != nil {
		return State{}, err
	}
	if r.Endpoint == noderuntime.Builtin {
		return State{}, ErrBuiltin
	}
	if r.Primary {
		return State{}, ErrPrimary
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all()
	if err := r.Fits(runtimesOf(all)); err != nil {
		return State{}, err
	}
	s, err := m.newService(r)
	if err != nil {
		return State{}, err
	}
	// One of the same name that the settings pushed aside is gone for good.
	added := slices.DeleteFunc(slices.Clone(m.added), func(o Runtime) bool { return o.Name == r.Name })
	if err := m.store(append(added, r)); err != nil {
		return State{}, errors.Join(err, s.close())
	}
	if m.runCtx != nil {
		s.start(m.runCtx)
	}
	m.setServices(append(slices.Clone(all), s))
	return s.current(), nil
}

// Remove takes a runtime out. Unless force is set, one that has pods, or that
// may have some as it cannot be asked, stays. One of the settings is back after
// a restart.
func (m *Mux) Remove(ctx context.Context, name string, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.all()
	s := byName(all, name)
	switch {
	case s == nil:
		return fmt.Errorf("%w: %q", ErrUnknown, name)
	case s.Primary:
		return ErrPrimary
	case !force:
		if err := s.unused(ctx); err != nil {
			return err
		}
	}
	if err := m.store(slices.DeleteFunc(slices.Clone(m.added),
		func(r Runtime) bool { return r.Name == name })); err != nil {
		return err
	}
	m.setServices(slices.DeleteFunc(slices.Clone(all), func(o *service) bool { return o == s }))
	m.router.owners.forgetAll(s)
	return errors.Join(s.memory.drop(), s.close())
}

// unused says why a runtime may not be removed.
func (s *service) unused(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	up, cancel := s.whileUp(ctx)
	defer cancel()
	n := 0
	list, err := s.client.ListPodSandbox(up, &runtimeapi.ListPodSandboxRequest{})
	if err == nil {
		n = len(list.Items)
	} else if n = s.memory.count(sandboxes); n == 0 {
		return fmt.Errorf("%w, as far as is known: %s", ErrInUse, s.explain(err))
	}
	if n > 0 {
		return fmt.Errorf("%w: %d sandboxes", ErrInUse, n)
	}
	return nil
}

// setServices replaces the registered runtimes. mu is held.
func (m *Mux) setServices(all []*service) {
	m.services.Store(&all)
	close(m.joined)
	m.joined = make(chan struct{})
	m.subscribers.notify()
}

// snapshot returns the registered runtimes and what is closed when they change.
func (m *Mux) snapshot() ([]*service, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all(), m.joined
}

// stored is the content of the file of runtimes.
type stored struct {
	Runtimes []Runtime `json:"runtimes"`
}

// store keeps the runtimes that were added. mu is held.
func (m *Mux) store(added []Runtime) error {
	if m.o.File != "" {
		data, err := json.MarshalIndent(stored{Runtimes: added}, "", "  ")
		if err != nil {
			return fmt.Errorf("keeping the runtimes of the node: %w", err)
		}
		if err := os.MkdirAll(filepath.Dir(m.o.File), 0o700); err != nil {
			return fmt.Errorf("keeping the runtimes of the node: %w", err)
		}
		if err := atomicfile.Write(m.o.File, append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	m.added = added
	return nil
}

func load(file string) ([]Runtime, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var s stored
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	for i := range s.Runtimes {
		err = errors.Join(err, s.Runtimes[i].Complete())
	}
	if err != nil {
		return nil, fmt.Errorf("the runtimes of %s: %w", file, err)
	}
	return s.Runtimes, nil
}

// serveAdmin serves the runtimes to root until the returned function is called.
func (m *Mux) serveAdmin(ctx context.Context, failed chan<- error) (stop func(), err error) {
	listener, err := rootsocket.Listen(ctx, m.o.AdminSocket)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+noderuntime.Path, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, m.States())
	})
	mux.HandleFunc("POST "+noderuntime.Path, func(w http.ResponseWriter, r *http.Request) {
		var added Runtime
		decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&added); err != nil {
			refuse(w, http.StatusBadRequest, err)
			return
		}
		state, err := m.Add(added)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		reply(w, http.StatusCreated, state)
	})
	mux.HandleFunc("DELETE "+noderuntime.Path+"/{name}", func(w http.ResponseWriter, r *http.Request) {
		if err := m.Remove(r.Context(), r.PathValue("name"), r.URL.Query().Get("force") == "true"); err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	})
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := server.Serve(rootOnly{listener}); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return func() {
		if err := server.Close(); err != nil {
			m.o.Log.WithError(err).Debug("closing the socket of the runtimes")
		}
		<-served
	}, nil
}

func reply(w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}

func refuse(w http.ResponseWriter, code int, err error) {
	reply(w, code, noderuntime.Refusal{Error: err.Error()})
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrPrimary), errors.Is(err, ErrBuiltin), errors.Is(err, ErrInUse),
		errors.Is(err, noderuntime.ErrTaken):
		return http.StatusConflict
	case errors.Is(err, noderuntime.ErrName), errors.Is(err, noderuntime.ErrEndpoint),
		errors.Is(err, workload.ErrUnknownType):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// rootOnly accepts connections of root. The mode of the socket says the same;
// it can be changed, and descriptors be handed on.
type rootOnly struct{ net.Listener }

// Accept implements net.Listener.
func (l rootOnly) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil || isRoot(conn) {
			return conn, err
		}
		_ = conn.Close() // a stranger's
	}
}

func isRoot(conn net.Conn) bool {
	uid, err := rootsocket.PeerUID(conn)
	return err == nil && uid == 0
}
