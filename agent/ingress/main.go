package ingress

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/agent/ingress/proxy"
	"github.com/a4s-io/a4s/internal/logging"
)

// Drain is how long requests in flight have to end when the node stops.
const Drain = 30 * time.Second

// debugArgument is the one that the child has.
const debugArgument = "--debug"

// Descriptors that the child has from its parent.
const (
	httpFile = 3 + iota
	httpsFile
	answersFile
)

// Main is the child.
func Main(ctx context.Context, args []string) error {
	log, err := logging.Setup(logging.Options{Debug: slices.Contains(args, debugArgument)})
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // nothing is left to report it to
	var listeners [2]net.Listener
	for i, file := range []uintptr{httpFile, httpsFile} {
		f := os.NewFile(file, "listener")
		if listeners[i], err = net.FileListener(f); err != nil {
			return fmt.Errorf("%s runs as a child of the node only: %w", Command, err)
		}
		f.Close() //nolint:errcheck // the listener has one of its own
	}
	if err := proxy.DropPrivileges(); err != nil {
		return err
	}
	answers := json.NewEncoder(os.NewFile(answersFile, "answers"))
	var mu sync.Mutex
	say := func(a answer) {
		mu.Lock()
		defer mu.Unlock()
		_ = answers.Encode(a) // a parent that is gone does not wait
	}
	return proxy.Run(ctx, proxy.Options{Lines: os.Stdin, HTTP: listeners[0], HTTPS: listeners[1], Drain: Drain,
		Report: func(all []proxy.TenantCount) { say(answer{Counts: all}) },
		Log:    logrus.WithField("component", Name)}, func() { say(answer{}) })
}
