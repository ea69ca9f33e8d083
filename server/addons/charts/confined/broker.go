package confined

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/a4s-io/a4s/internal/problem"
)

const (
	// maxMessage is the longest request for a connection.
	maxMessage = 2 << 10
	// maxText is the longest error in an answer, and maxReply the longest answer: JSON writes six bytes for some.
	maxText  = 1 << 10
	maxReply = 8 << 10
	// atOnce is how many connections are being made at a time.
	atOnce = 8
)

// request is one for a connection.
type request struct {
	ID               uint64
	Network, Address string
}

// reply is the answer to a request. The connection is beside it.
type reply struct {
	ID    uint64
	Error string `json:",omitempty"`
}

// pair are two ends of a socket of some kind.
func pair(kind int) (*net.UnixConn, *os.File, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	ours, err := connOf(os.NewFile(uintptr(ends[0]), "ours"))
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return ours, theirs, nil
}

// connOf is the socket of a file, which it closes.
func connOf(file *os.File) (*net.UnixConn, error) {
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%w: %T", errNoSocket, conn), conn.Close())
	}
	return socket, nil
}

// errNoSocket is another file than the one that a confined process has.
var errNoSocket = errors.New("not a socket of the parent")

// broker makes connections for a confined process.
type broker struct {
	socket  *net.UnixConn
	dial    Dial
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// serve makes connections until it is closed, so many at most, or until the child writes what is no request.
func serve(ctx context.Context, socket *net.UnixConn, dial Dial, most int) *broker {
	ctx, cancel := context.WithCancel(ctx)
	b := &broker{socket: socket, dial: dial, cancel: cancel}
	b.running.Go(func() {
		defer socket.Close() //nolint:errcheck // the child sees that it is gone
		places := make(chan struct{}, atOnce)
		buffer := make([]byte, maxMessage+1)
		for range most {
			n, err := socket.Read(buffer)
			var asked request
			if err != nil || n > maxMessage || json.Unmarshal(buffer[:n], &asked) != nil {
				return
			}
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				return
			}
			b.running.Go(func() {
				b.answer(ctx, asked)
				<-places
			})
		}
		// What it has goes on. One that never stops asking costs the parent as much as itself.
		for range most {
			n, err := socket.Read(buffer)
			var asked request
			if err != nil || n > maxMessage || json.Unmarshal(buffer[:n], &asked) != nil ||
				b.reply(reply{ID: asked.ID, Error: fmt.Sprintf("%d connections are the most", most)}, nil) != nil {
				return
			}
		}
	})
	return b
}

// close ends it, and everything that it has under way.
func (b *broker) close() {
	b.cancel()
	b.socket.Close() //nolint:errcheck // it may be closed
	b.running.Wait()
}

// answer makes a connection, and hands it over.
func (b *broker) answer(ctx context.Context, asked request) {
	conn, err := b.dial(ctx, asked.Network, asked.Address)
	if err != nil {
		_ = b.reply(reply{ID: asked.ID, Error: err.Error()}, nil) // it ends when it is gone
		return
	}
	if filed, ok := conn.(interface{ File() (*os.File, error) }); ok {
		if file, err := filed.File(); err == nil {
			_ = b.reply(reply{ID: asked.ID}, file) // as above
			file.Close()                           //nolint:errcheck // the child has one of its own
			conn.Close()                           //nolint:errcheck // as above
			return
		}
	}
	if err := b.copied(ctx, asked, conn); err != nil {
		_ = b.reply(reply{ID: asked.ID, Error: err.Error()}, nil) // as above
		conn.Close()                                              //nolint:errcheck // nobody has it
	}
}

// copied hands over one end of a socket, and copies between the other end and a connection until one of them ends.
func (b *broker) copied(ctx context.Context, asked request, conn net.Conn) error {
	socket, file, err := pair(unix.SOCK_STREAM)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // the child has one of its own
	if err := b.reply(reply{ID: asked.ID}, file); err != nil {
		return errors.Join(err, socket.Close())
	}
	b.running.Go(func() {
		stop := context.AfterFunc(ctx, func() {
			socket.Close() //nolint:errcheck // so that nothing is copied any more
			conn.Close()   //nolint:errcheck // as above
		})
		defer stop()
		var both sync.WaitGroup
		both.Go(func() { copyTo(socket, conn) })
		both.Go(func() { copyTo(conn, socket) })
		both.Wait()
		socket.Close() //nolint:errcheck // all was copied
		conn.Close()   //nolint:errcheck // as above
	})
	return nil
}

// copyTo copies until an end, and passes that on.
func copyTo(to, from net.Conn) {
	_, _ = io.Copy(to, from) // an error is an end
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed
	} else {
		to.Close() //nolint:errcheck // as above
	}
}

// reply writes an answer, with a file if there is one.
func (b *broker) reply(r reply, file *os.File) error {
	r.Error = problem.Short(r.Error, maxText)
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var rights []byte
	if file != nil {
		rights = unix.UnixRights(int(file.Fd()))
	}
	_, _, err = b.socket.WriteMsgUnix(data, rights, nil)
	return err
}
