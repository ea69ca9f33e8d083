package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/rootsocket"
)

// Name is the name of the component that serves the API.
const Name = "bootstrap-pod-api"

// Limits of a connection.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	stopTimeout   = 5 * time.Second
)

// Component serves the API on the unix socket until it is stopped.
func (a *API) Component(socket string) component.Component {
	return component.Component{Name: Name, Run: func(ctx context.Context, ready func()) error {
		return a.serve(ctx, socket, ready)
	}}
}

func (a *API) serve(ctx context.Context, socket string, ready func()) error {
	l, err := rootsocket.Listen(ctx, socket)
	if err != nil {
		return fmt.Errorf("listening for the bootstrap pod API: %w", err)
	}
	server := &http.Server{
		Handler: a, ConnContext: withPeer,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout,
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	})
	defer stop()
	a.log.WithField("socket", socket).Info("serving the bootstrap pod API")
	ready()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the bootstrap pod API: %w", err)
	}
	return <-stopped
}

// peerKey is the context key of the user behind a connection.
type peerKey struct{}

// peer is who is behind a connection.
type peer struct {
	uid uint32
	err error
}

// withPeer asks the kernel who connected.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	var p peer
	p.uid, p.err = rootsocket.PeerUID(c)
	return context.WithValue(ctx, peerKey{}, p)
}

// allowed reports whether the request comes from root or from the own user.
func allowed(r *http.Request, log *logrus.Entry) bool {
	p, ok := r.Context().Value(peerKey{}).(peer)
	if !ok || p.err != nil {
		log.WithError(p.err).Warn("refused a request to the bootstrap pod API: who sent it is unknown")
		return false
	}
	if p.uid == 0 || int64(p.uid) == int64(os.Getuid()) {
		return true
	}
	log.WithField("uid", p.uid).Warn("refused a request of another user to the bootstrap pod API")
	return false
}
