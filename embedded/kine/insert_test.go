package kine

import (
	"context"
	"errors"
	"testing"

	"github.com/k3s-io/kine/pkg/logstructured"
	kineserver "github.com/k3s-io/kine/pkg/server"
)

// interrupted is a log without keys whose database is away during some writes.
type interrupted struct {
	logstructured.Log
	fails  []error
	before *kineserver.Event
}

func (i *interrupted) Append(context.Context, *kineserver.Event) (int64, error) {
	if len(i.fails) == 0 {
		return 12, nil
	}
	err := i.fails[0]
	i.fails = i.fails[1:]
	return 0, err
}

func (i *interrupted) List(context.Context, string, string, int64, int64, bool, bool) (kineserver.EventBatch, error) {
	batch := kineserver.EventBatch{CurrentRev: 11}
	if i.before != nil {
		batch.Events = append(batch.Events, i.before)
	}
	return batch, nil
}

func (i *interrupted) CurrentRevision(context.Context) (int64, error) { return 11, nil }

func TestCreateSaysThatItFailed(t *testing.T) {
	away, deleted := errors.New("the database is away"),
		&kineserver.Event{Delete: true, KV: &kineserver.KeyValue{Key: "/x", ModRevision: 9}}
	for name, test := range map[string]struct {
		log  *interrupted
		want error
	}{
		"a new key":              {log: &interrupted{}},
		"a new key, interrupted": {log: &interrupted{fails: []error{away}}, want: away},
		"a key of before": {log: &interrupted{fails: []error{kineserver.ErrKeyExists},
			before: &kineserver.Event{KV: deleted.KV}}, want: kineserver.ErrKeyExists},
		"a deleted key": {log: &interrupted{fails: []error{kineserver.ErrKeyExists}, before: deleted}},
		"a deleted key, interrupted": {log: &interrupted{fails: []error{kineserver.ErrKeyExists, away},
			before: deleted}, want: away},
		"a deleted key, made already": {log: &interrupted{fails: []error{kineserver.ErrKeyExists,
			kineserver.ErrKeyExists}, before: deleted}, want: kineserver.ErrKeyExists},
	} {
		t.Run(name, func(t *testing.T) {
			backend := logstructured.New(test.log)
			if err := makeOutspoken(backend); err != nil {
				t.Fatal(err)
			}
			revision, err := (&remembering{Backend: backend}).Create(t.Context(), "/x", nil, 0)
			if !errors.Is(err, test.want) || err == nil && revision != 12 {
				t.Errorf("%d, %v, want %v", revision, err, test.want)
			}
		})
	}
}
