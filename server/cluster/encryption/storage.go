package encryption

import (
	"context"
	"os"
)

// state is a configuration that was read.
type state struct {
	*configuration
	data []byte
	// revision is that of the datastore, 0 where only the file has it.
	revision int64
}

func (s *state) hash() string { return hash(s.data) }

// storage is where the configuration is kept and changed, one step at a time.
type storage interface {
	// current returns the configuration that API servers have or will have.
	current(ctx context.Context) (*state, error)
	// replace puts next where was is, and fails if something else is there.
	replace(ctx context.Context, was *state, next *configuration) error
	// install makes the file of this server that of s.
	install(s *state) error
	// behind names the other servers whose API does not work with s yet.
	behind(ctx context.Context, s *state) ([]string, error)
	// others says whether there are other servers.
	others() (bool, error)
	Close() error
}

// fileStorage is for a server that shares its configuration with no other.
type fileStorage struct{ path string }

func (l fileStorage) current(context.Context) (*state, error) {
	data, err := os.ReadFile(l.path)
	if err != nil {
		return nil, err
	}
	c, err := parse(l.path, data)
	return &state{configuration: c, data: data}, err
}

func (l fileStorage) replace(_ context.Context, _ *state, next *configuration) error {
	data, err := next.render()
	if err != nil {
		return err
	}
	return writeFile(l.path, data)
}

func (l fileStorage) install(*state) error { return nil }

func (l fileStorage) behind(context.Context, *state) ([]string, error) { return nil, nil }

func (l fileStorage) others() (bool, error) { return false, nil }

func (l fileStorage) Close() error { return nil }
