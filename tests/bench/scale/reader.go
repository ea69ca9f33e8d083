package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/bench/users"
)

const (
	// readEvery is how often the reader reads, whether what it asked for before
	// has come or not.
	readEvery = 25 * time.Millisecond
	// readTimeout is after which a read counts as having taken that long.
	readTimeout = 30 * time.Second
	// settingsRead is how many objects the reader's space has.
	settingsRead = 20
)

// reader reads a few objects of a space that nothing else happens in: one by its
// name, and all, in turns.
type reader struct {
	space *users.Space

	mu    sync.Mutex
	phase string
	took  map[string][]time.Duration
	err   error
}

// startReader fills the space and reads until the context ends.
func startReader(ctx context.Context, s *users.Space) (*reader, error) {
	r := &reader{space: s, took: map[string][]time.Duration{}}
	for i := range settingsRead {
		if _, err := s.Core.ConfigMaps(s.Namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: settingName(i)},
			Data:       map[string]string{"text": strings.Repeat("word ", 200)},
		}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("making what is read: %w", err)
		}
	}
	go func() {
		ticker := time.NewTicker(readEvery)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				go r.read(ctx, n)
			}
		}
	}()
	return r, nil
}

func settingName(i int) string { return fmt.Sprintf("setting-%02d", i) }

// read reads once, for the phase in which it begins.
func (r *reader) read(ctx context.Context, n int) {
	r.mu.Lock()
	phase := r.phase
	r.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	settings := r.space.Core.ConfigMaps(r.space.Namespace)
	began := time.Now()
	var err error
	if n%2 == 0 {
		_, err = settings.Get(limited, settingName(n/2%settingsRead), metav1.GetOptions{})
	} else {
		_, err = settings.List(limited, metav1.ListOptions{})
	}
	took := time.Since(began)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case ctx.Err() != nil:
	case err != nil && limited.Err() == nil:
		r.err = fmt.Errorf("reading next door: %w", err)
	default:
		r.took[phase] = append(r.took[phase], took)
	}
}

// enter begins a phase.
func (r *reader) enter(phase string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// of returns how long the reads of a phase took, in order.
func (r *reader) of(phase string) ([]time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(slices.Values(r.took[phase])), r.err
}
