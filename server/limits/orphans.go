package limits

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// surveyLives is how long the list of places is good.
const surveyLives = 10 * time.Second

// Custom resources of a tenant that a definition of the system served stay when
// the system takes it back, and wait for another definition. No API reaches
// them then.

// Discard deletes what the datastore has of a tenant of resources that nobody
// defines any more, and returns how many objects that were. It is for a tenant
// whose Contents are empty.
func (l *Limits) Discard(ctx context.Context, tenant string) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	n, err := l.keys.discard(ctx, tenant)
	if err != nil {
		return n, fmt.Errorf("deleting the undefined objects of tenant %s: %w", tenant, err)
	}
	return n, nil
}

func (k *keys) discard(ctx context.Context, tenant string) (n int64, err error) {
	client, root, places, err := k.places()
	if err != nil {
		return 0, err
	}
	defined := map[string]bool{}
	for _, p := range places {
		defined[p.prefix] = true
	}
	found, err := k.survey(ctx, client, path.Join("/", root))
	if err != nil {
		return 0, err
	}
	for _, prefix := range found {
		if defined[prefix] {
			continue
		}
		answer, err := client.Delete(ctx, space.TenantPrefix(prefix, tenant), clientv3.WithPrefix())
		if err != nil {
			return n, err
		}
		n += answer.Deleted
	}
	return n, nil
}

// survey finds the places of all custom resources that have keys, defined or
// not. It goes from place to place and reads one key of each.
func (k *keys) survey(ctx context.Context, client *clientv3.Client, root string) ([]string, error) {
	k.mu.Lock()
	known, at := k.surveyed, k.surveyedAt
	k.mu.Unlock()
	if time.Since(at) < surveyLives {
		return known, nil
	}
	builtIn := kinds.Groups()
	at = time.Now()
	var found []string
	for from := root + "/"; ; {
		answer, err := client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(root+"/")), clientv3.WithKeysOnly(), clientv3.WithLimit(1))
		if err != nil {
			return nil, err
		}
		if len(answer.Kvs) == 0 {
			break
		}
		group, rest, _ := strings.Cut(strings.TrimPrefix(string(answer.Kvs[0].Key), root+"/"), "/")
		plural, _, _ := strings.Cut(rest, "/")
		place := root + "/" + group
		if strings.Contains(group, ".") && !builtIn[group] && plural != "" {
			place += "/" + plural
			found = append(found, place)
		}
		from = clientv3.GetPrefixRangeEnd(place + "/")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.surveyed, k.surveyedAt = found, at
	return found, nil
}
