package groupwatch

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// spread is the time in which a client's watches of one server become watches of streams
// when it learns of groups: all nodes learn at the same moment.
const spread = 20 * time.Second

// meanwhile asks one server for a watch of everything. When the configurations are known
// the watch ends as one does whose time is over, so that its client asks again.
func (t *transport) meanwhile(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	res, err := t.base.RoundTrip(req.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	stop := context.AfterFunc(t.groups.known, func() { time.AfterFunc(rand.N(t.groups.spread+1), cancel) })
	res.Body = &interim{ReadCloser: res.Body, asked: req.Context(), own: ctx, end: func() {
		stop()
		cancel()
	}}
	return res, nil
}

// interim is the body of such a watch.
type interim struct {
	io.ReadCloser
	asked, own context.Context
	end        func()
}

// Read implements io.Reader.
func (i *interim) Read(p []byte) (int, error) {
	n, err := i.ReadCloser.Read(p)
	if err != nil && i.own.Err() != nil && i.asked.Err() == nil {
		err = io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (i *interim) Close() error {
	err := i.ReadCloser.Close()
	i.end()
	return err
}
