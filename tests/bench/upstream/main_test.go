package upstream

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/klog/v2"

	"github.com/a4s-io/a4s/embedded/payload"
	"github.com/a4s-io/a4s/tests/hosts"
)

// suite is what all benchmarks share. TestMain fills it.
type suite struct {
	lab *hosts.Lab
	// binary is a4s, programs the directory of upstream's.
	binary, programs string
	// carried are the programs that both sides use.
	carried *payload.Payload
	// out is where results go.
	out string
	// base is another a4s, in whose place upstream's programs are not started, "" for none.
	base string
}

var env suite

func TestMain(m *testing.M) {
	hosts.Init()
	klog.LogToStderr(false)
	klog.SetOutput(discard{})
	code, err := run(m)
	if err != nil {
		log.Print(err)
		code = 1
	}
	os.Exit(code)
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func run(m *testing.M) (code int, err error) {
	for name, path := range map[string]*string{"A4S_BINARY": &env.binary, "A4S_UPSTREAM": &env.programs,
		"A4S_BENCH_OUT": &env.out} {
		given := os.Getenv(name)
		if given == "" {
			return 0, fmt.Errorf("%s is not set: run this with `make bench`", name)
		}
		if *path, err = filepath.Abs(given); err != nil {
			return 0, err
		}
	}
	if base := os.Getenv("A4S_BASE"); base != "" {
		if env.base, err = filepath.Abs(base); err != nil {
			return 0, err
		}
	}
	if env.lab, err = hosts.NewLab(); err != nil {
		return 0, err
	}
	defer env.lab.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if env.carried, err = payload.Extract(ctx, filepath.Join(env.lab.Dir, "carried")); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	result := make(chan int, 1)
	go func() {
		defer close(ended)
		result <- m.Run()
	}()
	select {
	case <-ended:
		return <-result, nil
	case <-ctx.Done():
		return 0, errors.New("interrupted")
	}
}
