package limits

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// surveyLives is how long the list of places is good.
const surveyLives = 10 * time.Second

// Custom resources of a tenant that a CRD of the system served stay when
// the system takes it back, and wait for another CRD. No API reaches
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

// survey finds the places of all custom resources that have keys and are not
// defined. It goes from place to place and reads one key of each.
// The datastore counts all keys up to the end of what it is asked for, so it is
// asked for what lies between the defined places only: what is there does not
// grow with the number of tenants.
func (k *keys) survey(ctx context.Context, client *clientv3.Client, root string) ([]string, error) {
	k.surveying.Lock() // many tenants at once need only one
	defer k.surveying.Unlock()
	k.mu.Lock()
	known, at, removals, defined := k.surveyed, k.surveyedAt, k.removals, slices.Collect(maps.Keys(k.resources))
	k.mu.Unlock()
	if time.Since(at) < surveyLives {
		return known, nil
	}
	builtIn := kinds.Groups()
	at = time.Now()
	var found []string
	for _, gap := range between(root, defined) {
		for from := gap.from; from < gap.end; {
			answer, err := client.Get(ctx, from, clientv3.WithRange(gap.end), clientv3.WithKeysOnly(),
				clientv3.WithLimit(1))
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
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.removals == removals { // otherwise something was passed over that nobody defines now
		k.surveyed, k.surveyedAt = found, at
	}
	return found, nil
}

// keyRange is of keys from one on to before another.
type keyRange struct{ from, end string }

// between are the keys below root that are below none of the places.
func between(root string, places []string) []keyRange {
	var gaps []keyRange
	from := root + "/"
	// In the order of their keys: "a.b/" is before "a/".
	places = slices.SortedFunc(slices.Values(places), func(a, b string) int { return strings.Compare(a+"/", b+"/") })
	for _, place := range places {
		if place += "/"; place > from {
			gaps = append(gaps, keyRange{from, place})
		}
		from = max(from, clientv3.GetPrefixRangeEnd(place))
	}
	return append(gaps, keyRange{from, clientv3.GetPrefixRangeEnd(root + "/")})
}
