package join

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

const (
	flagPartition = "--tenant-partition"
	flagCluster   = "--cluster"
)

// Register registers a partition with the home partition of its cluster, by the servers in
// o.URLs in turn until one answers or ctx ends. What cannot get better by waiting is a
// *problem.Input.
func Register(ctx context.Context, o Options, req joinapi.PartitionRequest) (*joinapi.PartitionBundle, error) {
	last := ""
	for {
		var errs []error
		for _, url := range o.URLs {
			bundle, err := registerAt(ctx, url, o, req)
			var in *problem.Input
			if err == nil || errors.As(err, &in) {
				return bundle, err
			}
			errs = append(errs, fmt.Errorf("%s: %w", url, err))
		}
		err := errors.Join(errs...)
		if ctx.Err() != nil {
			return nil, err
		}
		if text := err.Error(); text != last {
			o.Log.Warnf("Waiting for a server of the cluster: %s", strings.ReplaceAll(text, "\n", "; "))
			last = text
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("registering the partition: %w; last: %w", context.Cause(ctx), err)
		}
	}
}

func registerAt(
	ctx context.Context, url string, o Options, req joinapi.PartitionRequest,
) (*joinapi.PartitionBundle, error) {
	roots, err := trust(ctx, url, o.Token.CAHash)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(req)
	if err != nil {
		return nil, err
	}
	data, err := do(ctx, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, http.MethodPost,
		url+joinapi.PathPartition, o.Token.Authorization(), body)
	if err != nil {
		return nil, explainPartition(url, req, err)
	}
	bundle := &joinapi.PartitionBundle{}
	if err := json.Unmarshal(data, bundle); err != nil {
		return nil, fmt.Errorf("its answer at %s: %w", joinapi.PathPartition, err)
	}
	return bundle, Agree(o.Settings, bundle.Settings, url)
}

// explainPartition turns final answers into problems of the user.
func explainPartition(url string, req joinapi.PartitionRequest, err error) error {
	var answer *answerError
	if !errors.As(err, &answer) {
		return explain(url, err)
	}
	switch answer.code {
	case http.StatusGone:
		return &problem.Input{Source: flagPartition, Value: req.Name, Err: errors.New(answer.message),
			Want: "an empty server directory, for a partition of its own"}
	case http.StatusConflict, http.StatusUnprocessableEntity:
		return &problem.Input{Source: flagPartition, Value: req.Name, Err: errors.New(answer.message),
			Want: "a name and ranges that no other partition of the cluster has"}
	case http.StatusNotFound:
		return &problem.Input{Source: flagCluster, Value: url, Err: errors.New(answer.message),
			Want: "a server of the home partition, in which the cluster began"}
	}
	return explain(url, err)
}
