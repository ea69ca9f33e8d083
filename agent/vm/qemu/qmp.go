package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Error is a command that QEMU refused.
type Error struct {
	// Command is what was asked.
	Command string
	// Class and Description are QEMU's answer.
	Class       string `json:"class"`
	Description string `json:"desc"`
}

func (e *Error) Error() string { return "QEMU: " + e.Command + ": " + e.Description }

// errClosed says that the connection to QEMU was lost.
var errClosed = errors.New("the connection to QEMU is closed")

// event is something that QEMU says by itself.
type event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// monitor is one connection to QEMU's control socket.
type monitor struct {
	conn    net.Conn
	onEvent func(event)
	done    chan struct{} // closed when nothing is read any more

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan answer
}

type answer struct {
	ID     uint64          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	event
}

// openMonitor connects to the machine in dir. onEvent is called for each event
// and must return soon.
func openMonitor(ctx context.Context, dir string, onEvent func(event)) (*monitor, error) {
	conn, err := DialPort(ctx, dir, qmpSocket)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) }) // ends the read below
	r := bufio.NewReader(conn)
	// QEMU serves one client at a time: the greeting comes when it is our turn.
	_, err = r.ReadBytes('\n')
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("waiting for QEMU's greeting: %w", err), conn.Close())
	}
	m := &monitor{conn: conn, onEvent: onEvent, done: make(chan struct{}), pending: map[uint64]chan answer{}}
	go m.read(r)
	if err := m.execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

func (m *monitor) read(r *bufio.Reader) {
	defer close(m.done)
	d := json.NewDecoder(r)
	for {
		var a answer
		if err := d.Decode(&a); err != nil {
			return
		}
		if a.Name != "" {
			m.onEvent(a.event)
			continue
		}
		m.mu.Lock()
		ch := m.pending[a.ID]
		delete(m.pending, a.ID)
		m.mu.Unlock()
		if ch != nil {
			ch <- a
		}
	}
}

// execute runs a command. After an error other than *Error the outcome is not
// known.
func (m *monitor) execute(ctx context.Context, command string, arguments, result any) error {
	ch := make(chan answer, 1)
	m.mu.Lock()
	m.next++
	id := m.next
	m.pending[id] = ch
	request := struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, arguments, id}
	data, err := json.Marshal(request)
	if err == nil {
		_, err = m.conn.Write(append(data, '\n'))
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		delete(m.pending, id)
		m.mu.Unlock()
	}()
	if err != nil {
		return fmt.Errorf("QEMU: %s: %w", command, err)
	}
	select {
	case a := <-ch:
		if a.Error != nil {
			a.Error.Command = command
			return a.Error
		}
		if result == nil {
			return nil
		}
		if err := json.Unmarshal(a.Return, result); err != nil {
			return fmt.Errorf("QEMU: answer to %s: %w", command, err)
		}
		return nil
	case <-m.done:
		return fmt.Errorf("QEMU: %s: %w", command, errClosed)
	case <-ctx.Done():
		return fmt.Errorf("QEMU: %s: %w", command, context.Cause(ctx))
	}
}

func (m *monitor) close() error {
	err := m.conn.Close()
	<-m.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// maxSocketPath is how long the path of a unix socket may be.
const maxSocketPath = 107

// DialPort connects to a port of the machine in dir, by the name of its
// socket. The path may be longer than a socket's name may be.
func DialPort(ctx context.Context, dir, socket string) (net.Conn, error) {
	var d net.Dialer
	path := filepath.Join(dir, socket)
	if len(path) <= maxSocketPath {
		return d.DialContext(ctx, "unix", path)
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(f.Fd()))+"/"+socket)
	return conn, errors.Join(err, f.Close())
}
