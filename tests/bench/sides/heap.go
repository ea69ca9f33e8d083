package sides

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"
)

// Heap is the heap of a server of a4s, in MiB, as it is and after a collection.
func (s *Side) Heap(ctx context.Context) (inUse, live float64, err error) {
	client, err := kubernetes.NewForConfig(Efficient(s.Config))
	if err != nil {
		return 0, 0, err
	}
	get := func(path, query string) ([]byte, error) {
		request := client.Discovery().RESTClient().Get().AbsPath(path)
		if query != "" {
			request = request.Param(query, "1")
		}
		body, err := request.DoRaw(ctx)
		if err != nil {
			return nil, fmt.Errorf("asking %s for %s: %w", s.Host.Name, path, err)
		}
		return body, nil
	}
	metrics, err := get("/metrics", "")
	if err != nil {
		return 0, 0, err
	}
	if inUse, err = metric(metrics, "go_memstats_heap_inuse_bytes"); err != nil {
		return 0, 0, err
	}
	// A collection finishes what the one before has found to be garbage.
	for range 2 {
		if _, err := get("/debug/pprof/heap", "gc"); err != nil {
			return 0, 0, err
		}
	}
	if metrics, err = get("/metrics", ""); err != nil {
		return 0, 0, err
	}
	live, err = metric(metrics, "go_memstats_heap_alloc_bytes")
	return inUse / (1 << 20), live / (1 << 20), err
}

// metric is a value without labels.
func metric(text []byte, name string) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s: %w", name, lines.Err())
}
