package membership

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/partitionapi"
)

const (
	// look is how often the other servers of a partition are asked whether they are there,
	// and away for how long one is not until it is taken out of the list. One that comes
	// back puts itself into it, so that costs little.
	look, away = 10 * time.Second, time.Minute
)

// Pruner takes servers that are gone out of the list of their partition. One server of the
// partition runs it, so that a partition that is down keeps its last addresses.
type Pruner struct {
	Self partitionapi.PartitionServer
	// Servers are those of the partition, this one among them.
	Servers func() []partitionapi.PartitionServer
	// Answers asks a server whether it is there.
	Answers func(ctx context.Context, address string) error
	// Forget takes servers out.
	Forget func(context.Context, []joinapi.PartitionServer) error
	// Least is how many servers have to be there, this one among them, for others to be
	// taken out.
	Least int
	Log   *logrus.Entry

	silent map[partitionapi.PartitionServer]time.Time // since when
}

// Run prunes until ctx ends.
func (p *Pruner) Run(ctx context.Context) error {
	p.silent = nil // what an earlier lead has seen is old
	for component.Sleep(ctx, look) == nil {
		gone := p.round(ctx, time.Now())
		if len(gone) == 0 || ctx.Err() != nil {
			continue
		}
		if err := p.Forget(ctx, gone); err != nil {
			p.Log.WithError(err).Debug("servers that are gone stay in the list of their partition for now")
			continue
		}
		p.Log.Infof("Servers %v do not answer: they are not in the list of their partition any more", gone)
	}
	return nil
}

// round asks all servers and returns those that have been silent for too long.
func (p *Pruner) round(ctx context.Context, now time.Time) (gone []joinapi.PartitionServer) {
	all := p.Servers()
	answers := make([]bool, len(all))
	var asking sync.WaitGroup
	for i, s := range all {
		asking.Go(func() { answers[i] = s == p.Self || p.Answers(ctx, s.Address) == nil })
	}
	asking.Wait()
	silent, there := map[partitionapi.PartitionServer]time.Time{}, 0
	for i, s := range all {
		if answers[i] {
			there++
			continue
		}
		since, ok := p.silent[s]
		if !ok {
			since = now
		}
		silent[s] = since
		if now.Sub(since) >= away {
			gone = append(gone, joinapi.PartitionServer{Server: s.Name, Address: s.Address})
		}
	}
	p.silent = silent
	if !slices.Contains(all, p.Self) || there < p.Least {
		return nil
	}
	return gone
}
