package route

import (
	"io"
	"sync"
)

// aloneBody is the body of a watch that one partition answers alone.
type aloneBody struct {
	io.ReadCloser
	once sync.Once
	end  func()
}

// Close implements io.Closer.
func (b *aloneBody) Close() error {
	b.once.Do(b.end)
	return b.ReadCloser.Close()
}
