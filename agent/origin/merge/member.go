package merge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/a4s-io/a4s/agent/origin"
)

// member is a partition. What is on disk of it counts once its directory was admitted;
// until then, and after every error on the way, nobody knows what it has, and there are no
// lists of pods unless it answers itself.
type member struct {
	origin.Partition
	since    bool          // it joined after this process began
	admitted chan struct{} // closed when the checkpoint has a directory of it
	past     past          // unclear until it was admitted
	sources  map[*set]*source
	ends     map[*set]func() // ends the feed of a set
	ctx      context.Context // of its feeds
	stop     context.CancelFunc
	feeds    sync.WaitGroup
}

// undone is what failed on disk and is to be done again.
type undone struct {
	files *checkpoint
	// alone is the only partition, whose files are too old to count.
	alone string
	// begun says that it is not noted yet that all have their directories.
	begun bool
	// removals are of partitions that have left.
	removals map[string]bool
}

// Alone is called while this node has one partition and its collections are not
// merged: what is on disk of them goes, for nobody keeps it up to date.
func (c *Collections) Alone(p origin.Partition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undone.alone = p.Name
	return c.undone.forgetAlone()
}

// forgetAlone is the work of Alone.
func (u *undone) forgetAlone() error {
	if u.alone == "" {
		return nil
	}
	if err := u.files.keepOnly(map[string]bool{u.alone: true}); err != nil {
		return fmt.Errorf("checkpoint of partitions that have left: %w", err)
	}
	if err := u.files.blank(u.alone); err != nil {
		return fmt.Errorf("checkpoint of partition %s: %w", u.alone, err)
	}
	if err := u.files.begun(); err != nil {
		return err
	}
	u.alone = ""
	return nil
}

// Begin joins the partitions that there are in the beginning. They are followed after an
// error, too, and there are no lists until it is known what each of them has: see Retry.
func (c *Collections) Begin(all []origin.Partition) error {
	names := map[string]bool{}
	for _, p := range all {
		names[p.Name] = true
	}
	if err := c.files.keepOnly(names); err != nil {
		c.o.Log.WithError(err).Error("the checkpoint of partitions that have left is still there")
	}
	var errs []error
	for _, p := range all {
		errs = append(errs, c.Join(p, false)) // without one of them its pods would end
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undone.begun = true
	return errors.Join(append(errs, c.begun())...)
}

// begun notes that all partitions have their directories, once they have. The caller holds mu.
func (c *Collections) begun() error {
	for _, m := range c.members {
		if !m.isAdmitted() {
			return nil
		}
	}
	if !c.undone.begun {
		return nil
	}
	if err := c.files.begun(); err != nil {
		return err
	}
	c.undone.begun = false
	return nil
}

// Join adds a partition. since says that it joined after this process began, so it
// has no pods here that are not known; the same is said of one that the checkpoint
// does not know. After an error it has joined, too: see Begin.
func (c *Collections) Join(p origin.Partition, since bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &member{Partition: p, since: since, admitted: make(chan struct{}), sources: map[*set]*source{},
		ends: map[*set]func(){}}
	m.ctx, m.stop = context.WithCancel(c.ctx)
	c.members[p.Name] = m
	errs := []error{c.admit(m)}
	for s := range c.used {
		errs = append(errs, c.feed(s, m))
	}
	return errors.Join(append(errs, c.reopen())...)
}

func (m *member) isAdmitted() bool {
	select {
	case <-m.admitted:
		return true
	default:
		return false
	}
}

// admit finds out what the checkpoint has of a partition. The caller holds mu.
func (c *Collections) admit(m *member) error {
	if m.isAdmitted() {
		return nil
	}
	if err := c.undone.forgetAlone(); err != nil {
		return err
	}
	if c.undone.removals[m.Name] {
		if err := c.undone.remove(m.Name); err != nil {
			return err
		}
	}
	was, err := c.files.admit(m.Name, m.Identity, c.sets[podsResource])
	if err != nil {
		return fmt.Errorf("checkpoint of partition %s: %w", m.Name, err)
	}
	if m.past = was; m.since && c.files.dir == "" {
		m.past = none
	}
	for s, from := range m.sources {
		if m.past == none {
			s.learn(from, (*knowledge).never, nil)
		}
	}
	close(m.admitted)
	return nil
}

// Retry does what failed on disk before.
func (c *Collections) Retry() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := []error{c.undone.forgetAlone()}
	for _, m := range c.members {
		errs = append(errs, c.admit(m))
		for s := range c.used {
			errs = append(errs, c.feed(s, m))
		}
	}
	for name := range c.undone.removals {
		errs = append(errs, c.undone.remove(name))
	}
	return errors.Join(append(errs, c.begun())...)
}

// Identify takes note of the identity of a partition that joined before it was known.
func (c *Collections) Identify(p origin.Partition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[p.Name]
	if m == nil || !m.isAdmitted() {
		return nil // it is noted when it joins
	}
	return c.files.identify(p.Name, p.Identity)
}

// Leave removes a partition and all that it has.
func (c *Collections) Leave(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.members[name]
	if m == nil {
		return nil
	}
	delete(c.members, name)
	m.stop()
	m.feeds.Wait()
	for s, from := range m.sources {
		s.leave(from)
	}
	c.placement.forget(name)
	return errors.Join(c.reopen(), c.undone.remove(name))
}

// remove forgets on disk a partition that has left.
func (u *undone) remove(name string) error {
	u.removals[name] = true
	if err := u.files.remove(name); err != nil {
		return fmt.Errorf("checkpoint of partition %s, which has left: %w", name, err)
	}
	delete(u.removals, name)
	return nil
}

// feed begins to fill a set, unless it did. The caller holds mu.
func (c *Collections) feed(s *set, m *member) error {
	from := m.sources[s]
	if from == nil {
		from = &source{name: m.Name, home: m.Home}
		if m.past == none {
			from.never()
		}
		m.sources[s] = from
		s.join(from) // without a client, too: there is no list without it
	}
	if m.ends[s] != nil {
		return nil
	}
	return c.start(s, m, from)
}

// start follows what a partition has of a set. The caller holds mu.
func (c *Collections) start(s *set, m *member, from *source) error {
	client, err := newClient(m.Name, m.Transport, s.kind)
	if err != nil {
		return fmt.Errorf("client of partition %s: %w", m.Name, err)
	}
	f := &feed{set: s, from: from, client: client, selector: selectorFor(s.kind, c.o.NodeName),
		files: c.files, admitted: m.admitted,
		patience: c.o.Patience, listTimeout: c.listTimeout, log: c.o.Log}
	if s.resource == servicesResource {
		from.taken = c.taken(m)
	}
	ctx, cancel := context.WithCancel(m.ctx)
	done := make(chan struct{})
	m.ends[s] = func() {
		cancel()
		<-done
	}
	m.feeds.Go(func() {
		defer close(done)
		defer cancel()
		f.run(ctx)
	})
	return nil
}
