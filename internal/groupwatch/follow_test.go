package groupwatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/a4s-io/a4s/internal/partitionapi"
)

// configured is a server of configurations, whose watches are made to fail.
type configured struct {
	now     int64 // the revision
	asked   []string
	refuses error // what a watch is refused with, once
	open    *watch.FakeWatcher
}

func (c *configured) List(context.Context, metav1.ListOptions) (*partitionapi.DataPartitionConfigList, error) {
	c.asked = append(c.asked, "list")
	return &partitionapi.DataPartitionConfigList{ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(c.now)}}, nil
}

func (c *configured) Watch(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
	c.asked = append(c.asked, o.ResourceVersion)
	if err := c.refuses; err != nil {
		c.refuses = nil
		return nil, err
	}
	c.open = watch.NewFake()
	return c.open, nil
}

func at(rev int64) *partitionapi.DataPartitionConfig {
	return &partitionapi.DataPartitionConfig{ServiceGroupID: "1",
		ObjectMeta: metav1.ObjectMeta{Name: "of-1", ResourceVersion: strconv.FormatInt(rev, 10)}}
}

// TestFollowing: whatever ends a watch of the configurations, it goes on where it was, and merged
// watches, too. They begin anew if it cannot.
func TestFollowing(t *testing.T) {
	down := apierrors.NewInternalError(errors.New("a server ends"))
	expired := apierrors.NewResourceExpired("compacted")
	for name, c := range map[string]struct {
		fail func(c *configured)
		want []string // what is asked for
		anew bool
	}{
		"a watch ends": {func(c *configured) { c.open.Stop() }, []string{"list", "10", "20"}, false},
		"a watch is broken": {func(c *configured) { c.open.Error(&down.ErrStatus) },
			[]string{"list", "10", "20"}, false},
		"a watch is refused": {func(c *configured) {
			c.refuses = down
			c.open.Stop()
		}, []string{"list", "10", "20", "20"}, false},
		"a bookmark came": {func(c *configured) {
			c.open.Action(watch.Bookmark, at(25))
			synctest.Wait()
			c.open.Stop()
		}, []string{"list", "10", "25"}, false},
		"an event is none": {func(c *configured) {
			c.open.Add(&metav1.Status{})
		}, []string{"list", "10", "20"}, false},
		"a revision is compacted": {func(c *configured) {
			c.refuses = expired
			c.open.Stop()
		}, []string{"list", "10", "20", "list", "30"}, true},
		"a watch is behind": {func(c *configured) { c.open.Error(&expired.ErrStatus) },
			[]string{"list", "10", "list", "30"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &configured{now: 10}
				g := New(nil, logrus.NewEntry(logrus.New()))
				ctx, cancel := context.WithCancel(t.Context())
				go g.follow(ctx, s)
				synctest.Wait()
				s.open.Add(at(20))
				synctest.Wait()
				time.Sleep(time.Minute)
				synctest.Wait()
				s.now = 30
				c.fail(s)
				synctest.Wait()
				time.Sleep(time.Minute)
				synctest.Wait()
				if !slices.Equal(s.asked, c.want) {
					t.Errorf("asked for is %q, want %q", s.asked, c.want)
				}
				if _, _, goesOn := g.after(20); goesOn == c.anew {
					t.Errorf("a watch that was at the last change goes on: %t", goesOn)
				}
				s.open.Add(at(40))
				synctest.Wait()
				if more, _, _ := g.after(30); len(more) != 1 || more[0].at != 40 {
					t.Errorf("after that there is %v", more)
				}
				cancel()
				s.open.Stop()
			})
		})
	}
}
