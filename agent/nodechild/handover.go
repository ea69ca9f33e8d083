package nodechild

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/agent/host/nodeaddr"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/instance"
)

// Command is the name by which the binary is the node of a server.
const Command = "a4s-node"

// lockFile is the descriptor of the server's lock.
const lockFile = 3

// Socket is where the node tells how it is.
func Socket() string { return filepath.Join(instance.RunDir, "node.sock") }

// Setup is what the node needs to start.
type Setup struct {
	Config config.Agent
	Addr   nodeaddr.Choice
}

// Server is what the node joins.
type Server struct{ URL, Token string }

// Handover is what the server says to its node.
type Handover struct {
	Setup Setup
	in    *json.Decoder
}

// errNoServer says that the server has ended, or never was one.
var errNoServer = errors.New(Command + " is started by a4s server only")

// Receive returns what the server says on standard input.
func Receive(stdin io.Reader) (*Handover, error) {
	// Nothing that the node starts is to hold the lock.
	unix.CloseOnExec(lockFile)
	h := &Handover{in: json.NewDecoder(stdin)}
	if err := h.in.Decode(&h.Setup); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoServer, err)
	}
	return h, nil
}

// Server waits until the server can be joined, or ctx ends. It may be called once.
func (h *Handover) Server(ctx context.Context) (Server, error) {
	var s Server
	decoded := make(chan error, 1)
	// Reading standard input does not end with ctx, but with the process.
	go func() { decoded <- h.in.Decode(&s) }()
	select {
	case err := <-decoded:
		if err != nil {
			return Server{}, fmt.Errorf("%w: %w", errNoServer, err)
		}
		return s, nil
	case <-ctx.Done():
		return Server{}, context.Cause(ctx)
	}
}

// send is the other side of Handover. It returns when the reader has ended, too.
func send(out *os.File, setup Setup, server <-chan Server, ended <-chan struct{}) error {
	enc := json.NewEncoder(out)
	if err := enc.Encode(setup); err != nil {
		return err
	}
	select {
	case s := <-server:
		return enc.Encode(s)
	case <-ended:
		return nil
	}
}
